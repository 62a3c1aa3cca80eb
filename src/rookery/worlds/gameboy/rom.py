"""Finds, checks and reads the ROM of a game. Only rookery's own game is shipped, and no ROM is ever downloaded."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from rookery.errors import WorldError
from rookery.files import open_plain, read_plain
from rookery.worlds.gameboy.game_profile import LoadedProfile, find, shipped

FOLDER = "ROOKERY_ROM_DIR"
SUFFIXES = (".gb", ".gbc")
ROMS = Path(__file__).parent / "roms"  # games that come with rookery
HEADER_END, TITLE, COLOUR, CARTRIDGE, SIZE, MEMORY = 0x150, 0x134, 0x143, 0x147, 0x148, 0x149
CHECK, SUM = 0x14D, 0x14E
WITH_CLOCK = (0x0F, 0x10)
ARCHIVES = {b"PK\3\4": "zip", b"\x1f\x8b": "gzip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!": "rar"}
LARGEST_FILE = 64 << 20  # bytes that are read
LARGEST_SIZE = 8  # 32 KiB << 8: no cartridge is larger than 8 MiB
LARGEST_MEMORY = 5  # a code for the size of the cartridge's RAM, not the size itself


@dataclass(frozen=True)
class Rom:
    """A checked ROM."""

    data: bytes = field(repr=False)
    origin: str  # the file, or the name of a built-in game
    built_in: bool = False

    @cached_property
    def title(self) -> str:
        return title_of(self.data)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def colour(self) -> bool:
        """Whether it runs as a Game Boy Color game."""
        return self.data[COLOUR] >= 0x80

    @property
    def has_clock(self) -> bool:
        """Whether the cartridge has a real-time clock."""
        return self.data[CARTRIDGE] in WITH_CLOCK


def find_rom(found: LoadedProfile, rom: str | Path | None = None) -> Rom:
    """The ROM for a profile: the given file, the built-in game, or a file in the folder ROOKERY_ROM_DIR.

    A file with the bytes of the built-in game counts as the built-in game.
    """
    game = found.profile.game
    if rom is not None:
        path = Path(rom).expanduser()
    elif game.built_in is not None:
        own = built_in_rom(game.built_in)
        _check_game(own, found)
        return own
    else:
        path = _search(found)
    checked = read_rom(path)
    _check_game(checked, found)
    ours = built_in_rom(game.built_in) if game.built_in is not None else None
    return ours if ours is not None and ours.data == checked.data else checked


@lru_cache
def built_in_rom(name: str) -> Rom:
    """The ROM of a game that comes with rookery."""
    return Rom((ROMS / f"{name}.gb").read_bytes(), name, built_in=True)


def read_rom(path: Path) -> Rom:
    """The ROM in a file, of any game; a WorldError if it is incomplete or damaged."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except WorldError:
        raise
    except (OSError, ValueError) as error:
        raise WorldError(f"{path}: the ROM cannot be read ({_reason(path, error)})") from None


def check(data: bytes, name: str) -> None:
    """Refuse data that is not a complete, undamaged ROM."""
    for beginning, kind in ARCHIVES.items():
        if data.startswith(beginning):
            raise WorldError(f"{name}: is a {kind} archive; extract the ROM from it")
    if len(data) < HEADER_END:
        raise WorldError(f"{name}: is not a Game Boy ROM: it has {len(data)} bytes, fewer than the header alone")
    if data[CHECK] != _header_check(data):
        raise WorldError(f"{name}: is not a Game Boy ROM, or is damaged: the checksum of its header is wrong")
    if data[SIZE] > LARGEST_SIZE:
        raise WorldError(f"{name}: is damaged or unusual: its header has an unknown code of the size ({data[SIZE]})")
    if data[MEMORY] > LARGEST_MEMORY:
        raise WorldError(f"{name}: is damaged or unusual: its header has an unknown code of the RAM ({data[MEMORY]})")
    whole = 0x8000 << data[SIZE]
    if len(data) < whole:
        raise WorldError(f"{name}: the ROM is truncated: it has {len(data)} of the {whole} bytes given in its header")
    if len(data) > whole:
        raise WorldError(f"{name}: the ROM has {len(data)} bytes, {len(data) - whole} more than given in its header")


def title_of(data: bytes) -> str:
    """The title in a ROM's header."""
    end = COLOUR if data[COLOUR] >= 0x80 else COLOUR + 1
    return data[TITLE:end].split(b"\0")[0].decode("ascii", "replace").strip()


@lru_cache(maxsize=8)  # so that all emulators of one process share the bytes
def _read(path: Path, changed: int) -> Rom:
    data = read_plain(path, LARGEST_FILE)
    check(data, str(path))
    return Rom(data, str(path))


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and not path.is_absolute():
        return f"there is no such file in {Path.cwd()}"
    return getattr(error, "strerror", None) or str(error)


def _check_game(rom: Rom, found: LoadedProfile) -> None:
    """Refuse a game other than the profile's, or a version that it does not list."""
    game = found.profile.game
    if rom.title != game.title:
        raise WorldError(
            f"{rom.origin}: this is {rom.title!r}, but the profile {found.name} is for {game.title!r}: use "
            f"profile={_profile_for(rom)}"
        )
    listed = _listed(rom, found)
    if listed is False:
        raise WorldError(
            f"{rom.origin}: this is {rom.title!r}, but not a version that the profile {found.name} lists: "
            f"its SHA-256 is {rom.sha256}; to use it anyway, add this to [game] sha256 of the profile"
        )
    if listed is None and int.from_bytes(rom.data[SUM : SUM + 2], "big") != _sum(rom.data):
        raise WorldError(
            f"{rom.origin}: the ROM is damaged or modified: its checksum is not the one in its header. To use it "
            f'anyway, list it in the profile: [game] sha256 = ["{rom.sha256}"]'
        )


def _profile_for(rom: Rom) -> str:
    """The profile to use for a ROM, or how to make one."""
    fitting = [name for name in shipped() if find(name).profile.game.title == rom.title]
    return fitting[0] if fitting else "FILE.toml, which `rookery gameboy explore --rom` writes for a new game"


def _listed(rom: Rom, found: LoadedProfile) -> bool | None:
    """Whether a profile lists the checksum of this file; None if it lists no checksums."""
    listed = {text.lower() for text in (*found.profile.game.sha256, *found.profile.game.sha1)}
    if not listed:
        return None
    return bool(listed & {rom.sha256, hashlib.sha1(rom.data).hexdigest()})  # noqa: S324 - ROM lists use SHA-1


def _search(found: LoadedProfile) -> Path:
    """The file of the profile's game in the ROM folder; of several with its title, the one that the profile lists."""
    game, folder = found.profile.game, os.environ.get(FOLDER)
    ways = f"give rom=PATH (--rom PATH on the command line), or set {FOLDER} to the folder of your ROMs"
    wanted = f"the profile {found.name} needs your own ROM of {game.title!r}"
    if not folder:
        raise WorldError(f"{wanted}, which is neither shipped nor downloaded: {ways}")
    place = Path(folder).expanduser()
    try:
        os.listdir(place)
    except OSError as error:
        problem = "is not a folder" if not place.is_dir() else f"cannot be read ({error.strerror})"
        raise WorldError(f"{wanted}, and {FOLDER} names {folder}, which {problem}: {ways}") from None
    files = [path for path in _roms(place) if _titled(path, game.title)]
    if not files:
        raise WorldError(f"{wanted}, and no .gb or .gbc file in {folder} ({FOLDER}) has that title: {ways}")
    different = list(_different(files, found)) if len(files) > 1 else files
    if len(different) > 1:
        names = ", ".join(str(path.relative_to(place)) for path in different)
        raise WorldError(
            f"{len(different)} files in {folder} ({FOLDER}) have the title {game.title!r}: {names}; choose one with "
            "rom=PATH (--rom PATH on the command line)"
        )
    return (different or files)[0]


def _different(files: Iterable[Path], found: LoadedProfile) -> Iterator[Path]:
    """The files that the profile's checksums allow, without duplicates."""
    met = set()
    for path in files:
        with suppress(WorldError):
            rom = read_rom(path)
            if _listed(rom, found) is not False and rom.sha256 not in met:
                met.add(rom.sha256)
                yield path


def _roms(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES and path.is_file())


def _titled(path: Path, title: str) -> bool:
    try:
        with os.fdopen(open_plain(path.resolve(), os.O_RDONLY), "rb") as stream:
            header = stream.read(HEADER_END)
    except OSError:
        return False
    return len(header) == HEADER_END and title_of(header) == title


def _header_check(data: bytes) -> int:
    return (-sum(data[TITLE:CHECK]) - (CHECK - TITLE)) & 0xFF


def _sum(data: bytes) -> int:
    return (sum(data) - data[SUM] - data[SUM + 1]) & 0xFFFF
