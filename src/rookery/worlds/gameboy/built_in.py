"""Games that come with rookery: a ROM file, and the memory values that each episode can start with.

The folder roms/ holds `NAME.gb` and `NAME.json`. A start is a save state of PyBoy. It is made here: run the game until
it has booted, write the values of the start to memory, and run a few frames more so that the screen shows them.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rookery.user_dirs import cache_folder, read_own, write_own
from rookery.worlds.gameboy.emulator import Emulator, version
from rookery.worlds.gameboy.rom import ROMS, built_in_rom


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
    states = [_start(emulator, values, starts.settle_frames) for values in starts.starts]
    emulator.close()
    return states


def _start(emulator: Emulator, values: Mapping[int, int], settle_frames: int) -> bytes:
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
