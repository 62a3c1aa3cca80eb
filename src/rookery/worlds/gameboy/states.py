"""Save states: files that record their game, and the states that episodes start from.

A file contains a line with the format's name, a line of JSON, and PyBoy's state, compressed. Bare states, as PyBoy
itself writes them, are read too, but they do not name their game. With a state of another game, PyBoy may read beyond
its memory, which crashes the process, or reach an invalid instruction, which blocks it forever. So these are tried in a
child process first.

Of games that come with rookery, the folder roms/ holds `NAME.gb` and `NAME.json`, with the memory values of each start.
Its state is made here: run the game until it has booted, write the values, and run a few frames more so that the screen
shows them.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import pickle
import signal
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rookery.errors import WorldError
from rookery.files import read_plain
from rookery.user_dirs import cache_folder, read_own, write_own
from rookery.worlds.gameboy.emulator import Emulator, pyboy, version
from rookery.worlds.gameboy.game_profile import LoadedProfile
from rookery.worlds.gameboy.profile_schema import ButtonPress
from rookery.worlds.gameboy.rom import ROMS, Rom, built_in_rom

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


@dataclass(frozen=True)
class BuiltInStarts:
    """What `NAME.json` holds."""

    boot_frames: int
    settle_frames: int
    starts: tuple[Mapping[int, int], ...]  # per start: the value at each address


def read_starts(name: str) -> BuiltInStarts:
    """The starts of a game that comes with rookery.

    >>> len(read_starts("meadow").starts)
    8
    """
    table = json.loads((ROMS / f"{name}.json").read_text())
    starts = tuple({int(address, 16): value for address, value in start.items()} for start in table["starts"])
    return BuiltInStarts(table["boot_frames"], table["settle_frames"], starts)


@cache
def built_in_states(name: str) -> list[bytes]:
    """PyBoy's save state of each start, in order; made at first use and kept in the cache folder if there is one."""
    starts, folder = read_starts(name), cache_folder("gameboy")
    if folder is None:
        return _make_states(name, starts)
    file = folder / f"{name}-{_fingerprint(name, starts)}.states"
    states = _read_states(file, len(starts.starts))
    if states is None:
        states = _make_states(name, starts)
        _write_states(file, states)
    return states


def _make_states(name: str, starts: BuiltInStarts) -> list[bytes]:
    emulator = Emulator(built_in_rom(name))
    emulator.run(starts.boot_frames)
    states = [_start_state(emulator, values, starts.settle_frames) for values in starts.starts]
    emulator.close()
    return states


def _start_state(emulator: Emulator, values: Mapping[int, int], settle_frames: int) -> bytes:
    for address, value in values.items():
        emulator.memory[address] = value
    emulator.run(settle_frames, render=True)
    return emulator.save()


def _fingerprint(name: str, starts: BuiltInStarts) -> str:
    """Another ROM, other starts or another version of PyBoy give other states."""
    text = repr((built_in_rom(name).sha256, starts, version()))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _read_states(file: Path, count: int) -> list[bytes] | None:
    """The states in a cache file; None if it does not exist or is damaged."""
    try:
        data = read_own(file)
        states = zlib.decompress(data[32:])
    except (OSError, zlib.error):
        return None
    if hashlib.sha256(states).digest() != data[:32]:
        return None
    size = len(states) // count
    return [states[k : k + size] for k in range(0, len(states), size)]


def _write_states(file: Path, states: list[bytes]) -> None:
    """A cache that cannot be written is not an error: the states are made again next time."""
    joined = b"".join(states)
    with suppress(OSError):
        write_own(file, hashlib.sha256(joined).digest() + zlib.compress(joined, 1))


FRAMES = 60  # to run each state for
SECONDS = 20.0  # for the process to start, and again for every ten states
CHILD = "from rookery.worlds.gameboy.states import main; main()"


def try_out(rom: Rom, named: Mapping[str, bytes]) -> None:
    """Refuse the first of these states that PyBoy cannot run. Their version and size are already checked."""
    if not named:
        return
    output, ending = _run(pickle.dumps((rom, list(named.values()))), SECONDS * (1 + len(named) / 10))
    fine = output.count(b"\n")
    if fine < len(named):
        raise WorldError(
            f"{list(named)[fine]}: the save state is probably of another game than {rom.title!r}: with it, {ending}. "
            "Make it again with `rookery gameboy explore`"
        )


def _run(given: bytes, seconds: float) -> tuple[bytes, str]:
    """The child's output, one line per state that runs, and how the child ended."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", CHILD]
    try:
        ran = subprocess.run(command, input=given, capture_output=True, timeout=seconds, env=paths, check=False)
    except subprocess.TimeoutExpired as error:
        return error.stdout or b"", "the game hangs"
    ended = signal.Signals(-ran.returncode).name if ran.returncode < 0 else ran.stderr.decode().strip()[-200:]
    return ran.stdout, f"PyBoy crashes ({ended})"


def main() -> None:
    """The child process: reads a ROM and states, and writes one line per state that runs."""
    rom, states = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    emulator = Emulator(rom)
    for state in states:
        try:
            emulator.load(state)
            emulator.run(FRAMES, render=True)
        except pyboy().utils.PyBoyException as error:
            sys.exit(str(error))
        os.write(sys.stdout.fileno(), b"\n")
