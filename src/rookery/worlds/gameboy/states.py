"""Save states: as files that know which game they are of, and as what an episode starts from.

A file is a line that names the kind, a line of JSON, and PyBoy's state, compressed. Bare states, as PyBoy itself writes
them, are read too, but they do not say which game they are of.
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
from rookery.worlds.gameboy.profile import Found
from rookery.worlds.gameboy.rom import Rom
from rookery.worlds.gameboy.schema import Press
from rookery.worlds.gameboy.trial import try_out

LARGEST = 16 << 20  # bytes of a state
MAGIC = b"rookery game boy state 1\n"


def pack(state: bytes, rom: Rom) -> bytes:
    """PyBoy's state with what is needed to tell later whether it fits."""
    about = {
        "title": rom.title,
        "rom": rom.sha256,
        "format": state[0],
        "pyboy": version(),
        "sha256": hashlib.sha256(state).hexdigest(),
    }
    return MAGIC + json.dumps(about).encode() + b"\n" + zlib.compress(state, 1)


def unpack(data: bytes, emulator: Emulator, name: str) -> bytes:
    """The state that an emulator can load, from what `pack` made or PyBoy itself; else a WorldError says why not."""
    if not data.startswith(MAGIC):
        _check_bare(data, emulator, name)
        return data
    try:
        line, packed = data[len(MAGIC) :].split(b"\n", 1)
        about: dict[str, Any] = json.loads(line)
        state = zlib.decompressobj().decompress(packed, LARGEST)  # more than that would not fit its hash
        whole = hashlib.sha256(state).hexdigest() == about["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error):
        whole = False
    if not whole:
        raise WorldError(f"{name}: the save state is damaged or cut short")
    if about.get("rom") != emulator.rom.sha256:
        raise WorldError(
            f"{name}: the save state is of another game or version of it: of {about.get('title')!r}, ROM "
            f"{str(about.get('rom'))[:12]}..., not of {emulator.rom.title!r}, ROM {emulator.rom.sha256[:12]}..."
        )
    _check_bare(state, emulator, name)
    return state


def take(named: Mapping[str, bytes], emulator: Emulator) -> list[bytes]:
    """The states of some files, each of which the emulator can load; what PyBoy itself wrote is tried out before."""
    states = {name: unpack(data, emulator, name) for name, data in named.items()}
    try_out(emulator.rom, {name: states[name] for name, data in named.items() if not data.startswith(MAGIC)})
    return list(states.values())


def start_states(found: Found, rom: Rom) -> Sequence[bytes]:
    """What episodes of this profile start from, as an emulator loads it; made once in a process."""
    start = found.profile.start
    if start.files:
        return _from_files(tuple(_dated(file) for file in _files(found)), rom)
    if found.profile.game.built_in and "boot" not in start.model_fields_set and rom.built_in:
        return _from_game(rom)
    return (_from_power_on(rom, tuple(start.boot)),)


@lru_cache(maxsize=16)
def _from_power_on(rom: Rom, boot: tuple[Press, ...]) -> bytes:
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
    """The state a frame later, with no button held and the screen drawn: both are part of a state."""
    emulator.run(1, render=True)
    return emulator.save()


def _files(found: Found) -> list[Path]:
    """The files that a profile names, by themselves or by a pattern."""
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
    """A file and when it was changed: what is remembered of it holds as long."""
    return file, file.stat().st_mtime_ns if file.exists() else 0


def _check_bare(state: bytes, emulator: Emulator, name: str) -> None:
    """What can be seen of a state from outside: PyBoy itself would fail half-way, or not at all."""
    ours = _pattern(emulator.rom)
    if not state or state[0] != ours[0]:
        found = f"format {state[0]}" if state else "nothing"
        raise WorldError(
            f"{name}: the save state is of another version of PyBoy, or is none at all: it holds {found}, this PyBoy "
            f"reads format {ours[0]}. Make it again with `rookery gameboy explore`"
        )
    if len(state) != len(ours):
        raise WorldError(
            f"{name}: the save state is cut short, or of another game: it has {len(state)} bytes, one of "
            f"{emulator.rom.title!r} has {len(ours)}"
        )


@lru_cache(maxsize=4)
def _pattern(rom: Rom) -> bytes:
    """A state of this ROM: all of them are equally long."""
    emulator = Emulator(rom)
    state = emulator.save()
    emulator.close()
    return state
