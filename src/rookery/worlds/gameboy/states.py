"""Save states: files that record their game, and the states that episodes start from.

A file holds a line with the format's name, a line of JSON, and PyBoy's state, compressed. Bare states, as PyBoy itself
writes them, are read too, but they do not name their game.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rookery.errors import WorldError
from rookery.files import read_plain
from rookery.worlds.gameboy.built_in import built_in_states
from rookery.worlds.gameboy.emulator import Emulator, version
from rookery.worlds.gameboy.profile import LoadedProfile
from rookery.worlds.gameboy.rom import Rom
from rookery.worlds.gameboy.schema import ButtonPress
from rookery.worlds.gameboy.trial import try_out

LARGEST = 16 << 20  # bytes of a state
MAGIC = b"rookery game boy state 1\n"


def pack(state: bytes, rom: Rom) -> bytes:
    """A file with PyBoy's state and the facts that `unpack` checks."""
    about = {
        "title": rom.title,
        "rom": rom.sha256,
        "format": state[0],
        "pyboy": version(),
        "sha256": hashlib.sha256(state).hexdigest(),
    }
    return MAGIC + json.dumps(about).encode() + b"\n" + zlib.compress(state, 1)


def unpack(data: bytes, emulator: Emulator, name: str) -> bytes:
    """The state in a file of `pack` or of PyBoy itself; a WorldError if this emulator cannot load it."""
    if not data.startswith(MAGIC):
        _check_bare(data, emulator, name)
        return data
    try:
        line, packed = data[len(MAGIC) :].split(b"\n", 1)
        about: dict[str, Any] = json.loads(line)
        state = zlib.decompressobj().decompress(packed, LARGEST)  # a longer one would not match its hash
        whole = hashlib.sha256(state).hexdigest() == about["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error):
        whole = False
    if not whole:
        raise WorldError(f"{name}: the save state is damaged or truncated")
    if about.get("rom") != emulator.rom.sha256:
        raise WorldError(
            f"{name}: the save state is of another game, or another version of it: of {about.get('title')!r}, ROM "
            f"{str(about.get('rom'))[:12]}..., not of {emulator.rom.title!r}, ROM {emulator.rom.sha256[:12]}..."
        )
    _check_bare(state, emulator, name)
    return state


def take(named: Mapping[str, bytes], emulator: Emulator) -> list[bytes]:
    """The states of these files, checked; those that PyBoy itself wrote are tested in another process first."""
    states = {name: unpack(data, emulator, name) for name, data in named.items()}
    try_out(emulator.rom, {name: states[name] for name, data in named.items() if not data.startswith(MAGIC)})
    return list(states.values())


def start_states(found: LoadedProfile, rom: Rom) -> Sequence[bytes]:
    """The states that episodes of this profile start from; made once per process."""
    start = found.profile.start
    if start.files:
        return _from_files(tuple(_dated(file) for file in _files(found)), rom)
    if found.profile.game.built_in and "boot" not in start.model_fields_set and rom.built_in:
        return _from_game(rom)
    return (_from_power_on(rom, tuple(start.boot)),)


@lru_cache(maxsize=16)
def _from_power_on(rom: Rom, boot: tuple[ButtonPress, ...]) -> bytes:
    emulator = Emulator(rom)
    for press in boot:
        emulator.run(press.frames, press.buttons)
    state = _settled(emulator)
    emulator.close()
    return state


@lru_cache(maxsize=16)
def _from_files(files: tuple[tuple[Path, int], ...], rom: Rom) -> tuple[bytes, ...]:
    emulator = Emulator(rom)
    try:
        taken = take({str(file): _bytes(file) for file, _ in files}, emulator)
        return tuple(_started(emulator, state) for state in taken)
    finally:
        emulator.close()


def _bytes(file: Path) -> bytes:
    try:
        return read_plain(file, LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorldError(f"{file}: the save state cannot be read ({reason})") from None


def _started(emulator: Emulator, state: bytes) -> bytes:
    emulator.load(state)
    return _settled(emulator)


@lru_cache(maxsize=4)
def _from_game(rom: Rom) -> tuple[bytes, ...]:
    emulator = Emulator(rom)
    given = enumerate(built_in_states(rom.origin))
    states = tuple(unpack(data, emulator, f"start state {k} of {rom.origin}") for k, data in given)
    emulator.close()
    return states


def _settled(emulator: Emulator) -> bytes:
    """The state one frame later, with no button held and the screen drawn: both are part of a state."""
    emulator.run(1, render=True)
    return emulator.save()


def _files(found: LoadedProfile) -> list[Path]:
    """The files that a profile lists, by name or by pattern."""
    files: list[Path] = []
    for given in found.profile.start.files:
        pattern, folder = os.path.expanduser(given), found.path.parent
        wild = "*" in pattern or "?" in pattern
        names = sorted(glob.glob(pattern, root_dir=folder, recursive=True)) if wild else [pattern]
        if not names:
            raise WorldError(f"{found.path}: no file matches {given!r} ([start] files)")
        files += [folder / name for name in names]
    return files


def _dated(file: Path) -> tuple[Path, int]:
    """A file and its modification time, as a cache key."""
    return file, file.stat().st_mtime_ns if file.exists() else 0


def _check_bare(state: bytes, emulator: Emulator, name: str) -> None:
    """Check the version and size of a state: PyBoy itself would fail half-way, or not at all."""
    ours = _pattern(emulator.rom)
    if not state or state[0] != ours[0]:
        found = f"format {state[0]}" if state else "nothing"
        raise WorldError(
            f"{name}: this is not a save state, or one of another version of PyBoy: it holds {found}, this PyBoy reads "
            f"format {ours[0]}. Make it again with `rookery gameboy explore`"
        )
    if len(state) != len(ours):
        raise WorldError(
            f"{name}: the save state is truncated, or of another game: it has {len(state)} bytes, but one of "
            f"{emulator.rom.title!r} has {len(ours)}"
        )


@lru_cache(maxsize=4)
def _pattern(rom: Rom) -> bytes:
    """Any state of this ROM: all have the same size."""
    emulator = Emulator(rom)
    state = emulator.save()
    emulator.close()
    return state
