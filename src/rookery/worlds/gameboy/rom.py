"""The game's ROM: found, checked and read. None is shipped but our own, and none is ever fetched."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path

from rookery.errors import WorldError
from rookery.worlds.gameboy.profile import Found

FOLDER = "ROOKERY_ROM_DIR"
SUFFIXES = (".gb", ".gbc")
BUILT_IN = {"meadow": "rookery.worlds.gameboy.meadow"}
HEADER_END, TITLE, COLOUR, CARTRIDGE, SIZE, CHECK, SUM = 0x150, 0x134, 0x143, 0x147, 0x148, 0x14D, 0x14E
WITH_CLOCK = (0x0F, 0x10)
LARGEST_SIZE = 8  # 32 KiB << 8: no cartridge is larger than 8 MiB


@dataclass(frozen=True)
class Rom:
    """A checked ROM."""

    data: bytes = field(repr=False)
    origin: str  # the file it came from, or the name of a built-in game

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
        return _built_in(game.built_in)
    else:
        path = _search(found)
    try:
        changed = path.stat().st_mtime_ns
        checked = _read(path, changed)
    except OSError as error:
        raise WorldError(f"{path}: the ROM cannot be read ({error.strerror})") from None
    _check_game(checked, found)
    ours = _built_in(game.built_in) if game.built_in is not None else None
    return ours if ours is not None and ours.data == checked.data else checked


def check(data: bytes, name: str) -> None:
    """Refuse what is not a whole and undamaged ROM."""
    if data[:4] == b"PK\3\4":
        raise WorldError(f"{name}: is a zip archive; unpack the ROM from it")
    if len(data) < HEADER_END:
        raise WorldError(f"{name}: is no Game Boy ROM: it has {len(data)} bytes, fewer than the header alone")
    if data[CHECK] != _header_check(data) or data[SIZE] > LARGEST_SIZE:
        raise WorldError(f"{name}: is no Game Boy ROM, or is damaged: the checksum of its header is wrong")
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
    data = path.read_bytes()
    check(data, str(path))
    return Rom(data, str(path))


@lru_cache
def _built_in(name: str) -> Rom:
    return Rom(import_module(BUILT_IN[name]).rom(), name)


def _check_game(rom: Rom, found: Found) -> None:
    """Refuse another game than the profile's, or another version than those it lists."""
    game = found.profile.game
    if rom.title != game.title:
        raise WorldError(f"{rom.origin}: this is {rom.title!r}, but the profile {found.name} is for {game.title!r}")
    listed = {text.lower() for text in (*game.sha256, *game.sha1)}
    if listed and not listed & {rom.sha256, hashlib.sha1(rom.data).hexdigest()}:  # noqa: S324 - ROMs are listed by it
        raise WorldError(
            f"{rom.origin}: this is {rom.title!r}, but not a version that the profile {found.name} lists: "
            f"its SHA-256 is {rom.sha256}"
        )
    if not listed and int.from_bytes(rom.data[SUM : SUM + 2], "big") != _sum(rom.data):
        raise WorldError(
            f"{rom.origin}: the ROM is damaged or was changed: its checksum is not the one in its header. If that is "
            f'meant, list it in the profile: [game] sha256 = ["{rom.sha256}"]'
        )


def _search(found: Found) -> Path:
    """The one file in the ROM folder that has the profile's title."""
    game, folder = found.profile.game, os.environ.get(FOLDER)
    ways = f"give rom=PATH (--rom PATH on the command line), or set {FOLDER} to the folder that it is in"
    wanted = f"the profile {found.name} needs your own ROM of {game.title!r}"
    if not folder:
        raise WorldError(f"{wanted}, which is neither shipped nor fetched: {ways}")
    if not Path(folder).is_dir():
        raise WorldError(f"{wanted}, and {FOLDER} names {folder}, which is no folder")
    files = [path for path in _roms(Path(folder)) if _titled(path, game.title)]
    if not files:
        raise WorldError(f"{wanted}, and no .gb or .gbc file in {folder} ({FOLDER}) has that title: {ways}")
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise WorldError(
            f"{len(files)} files in {folder} ({FOLDER}) have the title {game.title!r}: {names}; give rom=PATH"
        )
    return files[0]


def _roms(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES and path.is_file())


def _titled(path: Path, title: str) -> bool:
    try:
        with path.open("rb") as stream:
            header = stream.read(HEADER_END)
    except OSError:
        return False
    return len(header) == HEADER_END and title_of(header) == title


def _header_check(data: bytes) -> int:
    return (-sum(data[TITLE:CHECK]) - (CHECK - TITLE)) & 0xFF


def _sum(data: bytes) -> int:
    return (sum(data) - data[SUM] - data[SUM + 1]) & 0xFFFF
