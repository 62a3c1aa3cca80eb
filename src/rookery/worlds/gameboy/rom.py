"""The game's ROM: found, checked and read. None is shipped but our own, and none is ever fetched."""

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
from rookery.worlds.gameboy.profile import Found, find, shipped

FOLDER = "ROOKERY_ROM_DIR"
SUFFIXES = (".gb", ".gbc")
ROMS = Path(__file__).parent / "roms"  # games that come with rookery
HEADER_END, TITLE, COLOUR, CARTRIDGE, SIZE, MEMORY = 0x150, 0x134, 0x143, 0x147, 0x148, 0x149
CHECK, SUM = 0x14D, 0x14E
WITH_CLOCK = (0x0F, 0x10)
ARCHIVES = {b"PK\3\4": "zip", b"\x1f\x8b": "gzip", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!": "rar"}
LARGEST_FILE = 64 << 20  # bytes that are looked at, to say what is wrong with them
LARGEST_SIZE = 8  # 32 KiB << 8: no cartridge is larger than 8 MiB
LARGEST_MEMORY = 5  # a code: the sizes of a cartridge's own memory are not in order


@dataclass(frozen=True)
class Rom:
    """A checked ROM."""

    data: bytes = field(repr=False)
    origin: str  # the file it came from, or the name of a built-in game
    built_in: bool = False

    @cached_property
    def title(self) -> str:
        return title_of(self.data)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def colour(self) -> bool:
        """Whether it is run as a Game Boy Color's."""
        return self.data[COLOUR] >= 0x80

    @property
    def has_clock(self) -> bool:
        """Whether the cartridge has a clock, which would go by the time of day."""
        return self.data[CARTRIDGE] in WITH_CLOCK


def find_rom(found: Found, rom: str | Path | None = None) -> Rom:
    """The ROM for a profile: the file that is named, our own game, or a file in the folder ROOKERY_ROM_DIR.

    A file with our own game in it is our own game.
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
    """A file, if it is a whole and undamaged ROM, of whichever game."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except WorldError:
        raise
    except (OSError, ValueError) as error:
        raise WorldError(f"{path}: the ROM cannot be read ({_reason(path, error)})") from None


def check(data: bytes, name: str) -> None:
    """Refuse what is not a whole and undamaged ROM."""
    for beginning, kind in ARCHIVES.items():
        if data.startswith(beginning):
            raise WorldError(f"{name}: is a {kind} archive; unpack the ROM from it")
    if len(data) < HEADER_END:
        raise WorldError(f"{name}: is no Game Boy ROM: it has {len(data)} bytes, fewer than the header alone")
    if data[CHECK] != _header_check(data):
        raise WorldError(f"{name}: is no Game Boy ROM, or is damaged: the checksum of its header is wrong")
    if data[SIZE] > LARGEST_SIZE:
        raise WorldError(f"{name}: is damaged, or no usual ROM: its header tells of a size ({data[SIZE]}) none has")
    if data[MEMORY] > LARGEST_MEMORY:
        raise WorldError(f"{name}: is damaged, or no usual ROM: its header tells of memory ({data[MEMORY]}) none has")
    whole = 0x8000 << data[SIZE]
    if len(data) < whole:
        raise WorldError(f"{name}: the ROM is cut short: {len(data)} of the {whole} bytes that its header tells of")
    if len(data) > whole:
        raise WorldError(f"{name}: the ROM has {len(data)} bytes, {len(data) - whole} more than its header tells of")


def title_of(data: bytes) -> str:
    """The title in a ROM's header."""
    end = COLOUR if data[COLOUR] >= 0x80 else COLOUR + 1
    return data[TITLE:end].split(b"\0")[0].decode("ascii", "replace").strip()


@lru_cache(maxsize=8)  # so that the emulators of one process are built from the same bytes
def _read(path: Path, changed: int) -> Rom:
    data = read_plain(path, LARGEST_FILE)
    check(data, str(path))
    return Rom(data, str(path))


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and not path.is_absolute():
        return f"there is no such file in {Path.cwd()}"
    return getattr(error, "strerror", None) or str(error)


def _check_game(rom: Rom, found: Found) -> None:
    """Refuse another game than the profile's, or another version than those it lists."""
    game = found.profile.game
    if rom.title != game.title:
        raise WorldError(
            f"{rom.origin}: this is {rom.title!r}, but the profile {found.name} is for {game.title!r}: give "
            f"profile={_profile_for(rom)}"
        )
    listed = _listed(rom, found)
    if listed is False:
        raise WorldError(
            f"{rom.origin}: this is {rom.title!r}, but not a version that the profile {found.name} lists: "
            f"its SHA-256 is {rom.sha256}; if that is meant, add it to [game] sha256 there"
        )
    if listed is None and int.from_bytes(rom.data[SUM : SUM + 2], "big") != _sum(rom.data):
        raise WorldError(
            f"{rom.origin}: the ROM is damaged or was changed: its checksum is not the one in its header. If that is "
            f'meant, list it in the profile: [game] sha256 = ["{rom.sha256}"]'
        )


def _profile_for(rom: Rom) -> str:
    """Which profile to give for a ROM, or how to come by one."""
    fitting = [name for name in shipped() if find(name).profile.game.title == rom.title]
    return fitting[0] if fitting else "FILE.toml, which `rookery gameboy explore --rom` begins for a game"


def _listed(rom: Rom, found: Found) -> bool | None:
    """Whether a profile lists the checksum of this very file; None if it lists none at all."""
    listed = {text.lower() for text in (*found.profile.game.sha256, *found.profile.game.sha1)}
    if not listed:
        return None
    return bool(listed & {rom.sha256, hashlib.sha1(rom.data).hexdigest()})  # noqa: S324 - ROMs are listed by it


def _search(found: Found) -> Path:
    """The file in the ROM folder that is the profile's game; of several with its title, the one that it lists."""
    game, folder = found.profile.game, os.environ.get(FOLDER)
    ways = f"give rom=PATH (--rom PATH on the command line), or set {FOLDER} to the folder that it is in"
    wanted = f"the profile {found.name} needs your own ROM of {game.title!r}"
    if not folder:
        raise WorldError(f"{wanted}, which is neither shipped nor fetched: {ways}")
    place = Path(folder).expanduser()
    try:
        os.listdir(place)
    except OSError as error:
        problem = "is no folder" if not place.is_dir() else f"cannot be read ({error.strerror})"
        raise WorldError(f"{wanted}, and {FOLDER} names {folder}, which {problem}: {ways}") from None
    files = [path for path in _roms(place) if _titled(path, game.title)]
    if not files:
        raise WorldError(f"{wanted}, and no .gb or .gbc file in {folder} ({FOLDER}) has that title: {ways}")
    different = list(_different(files, found)) if len(files) > 1 else files
    if len(different) > 1:
        names = ", ".join(str(path.relative_to(place)) for path in different)
        raise WorldError(
            f"{len(different)} files in {folder} ({FOLDER}) have the title {game.title!r}: {names}; say which by "
            "rom=PATH (--rom PATH on the command line)"
        )
    return (different or files)[0]


def _different(files: Iterable[Path], found: Found) -> Iterator[Path]:
    """Those that a profile's checksums allow, and of copies the first."""
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
