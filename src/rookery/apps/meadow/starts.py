"""Moments to begin an episode at: the player in different places, the key in different places.

The game itself knows no chance. What differs between episodes is where they start, and that is a save state, made here
by running the game and writing to its memory.
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rookery.apps.meadow import memory_map as mem
from rookery.apps.meadow.game import rom
from rookery.apps.meadow.rooms import CLEARING, MapPlace
from rookery.user_dirs import cache_folder, read_own, write_own
from rookery.worlds.gameboy.emulator import Emulator, version
from rookery.worlds.gameboy.rom import Rom

BOOT_FRAMES = 120  # the machine's own start takes about 70
SETTLE_FRAMES = 4  # to draw what was written to memory


@dataclass(frozen=True)
class StartMoment:
    """How an episode begins."""

    player: MapPlace
    key_place: int
    facing: int
    walker_x: int
    walker_left: bool = False


STARTS = (
    StartMoment(MapPlace(CLEARING, 60, 36), 0, mem.DOWN, 28),
    StartMoment(MapPlace(CLEARING, 76, 84), 1, mem.RIGHT, 60),
    StartMoment(MapPlace(CLEARING, 84, 92), 2, mem.UP, 44, walker_left=True),
    StartMoment(MapPlace(CLEARING, 68, 60), 3, mem.RIGHT, 32),
    StartMoment(MapPlace(CLEARING, 92, 36), 1, mem.DOWN, 52, walker_left=True),
    StartMoment(MapPlace(CLEARING, 52, 76), 2, mem.UP, 36),
    StartMoment(MapPlace(CLEARING, 84, 68), 0, mem.LEFT, 64, walker_left=True),
    StartMoment(MapPlace(CLEARING, 44, 52), 3, mem.RIGHT, 40),
)


@cache
def start_states() -> list[bytes]:
    """PyBoy's save states of all starts, in order; made at first use and kept in the cache folder if there is one."""
    folder = cache_folder("gameboy")
    if folder is None:
        return _make()
    file = folder / f"meadow-{_fingerprint()}.states"
    states = _read(file)
    if states is None:
        states = _make()
        _write(file, states)
    return states


def _make() -> list[bytes]:
    emulator = Emulator(Rom(rom(), "meadow"))
    emulator.run(BOOT_FRAMES)
    states = [_begin(emulator, start) for start in STARTS]
    emulator.close()
    return states


def _begin(emulator: Emulator, start: StartMoment) -> bytes:
    values = {
        mem.PLAYER_X: start.player.x,
        mem.PLAYER_Y: start.player.y,
        mem.ROOM: start.player.room,
        mem.KEY_PLACE: start.key_place,
        mem.FACING: start.facing,
        mem.WALKER_X: start.walker_x,
        mem.WALKER_LEFT: int(start.walker_left),
    }
    for address, value in values.items():
        emulator.memory[address] = value
    emulator.run(SETTLE_FRAMES, render=True)
    return emulator.save()


def _fingerprint() -> str:
    """Another game, other starts or another PyBoy give other states."""
    what = repr((hashlib.sha256(rom()).hexdigest(), STARTS, BOOT_FRAMES, SETTLE_FRAMES, version()))
    return hashlib.sha256(what.encode()).hexdigest()[:20]


def _read(file: Path) -> list[bytes] | None:
    """The states in a file, if it is there and whole."""
    try:
        data = read_own(file)
        states = zlib.decompress(data[32:])
    except (OSError, zlib.error):
        return None
    if hashlib.sha256(states).digest() != data[:32]:
        return None
    size = len(states) // len(STARTS)
    return [states[k : k + size] for k in range(0, len(states), size)]


def _write(file: Path, states: list[bytes]) -> None:
    """For the next time, if that can be."""
    together = b"".join(states)
    data = hashlib.sha256(together).digest() + zlib.compress(together, 1)
    with suppress(OSError):
        write_own(file, data)
