"""How episodes begin: the player in different places, the key in different places.

The game itself uses no random numbers. Episodes differ only by the start, which is a set of values in memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gameboy_game import memory_map as mem
from gameboy_game.rooms import CLEARING, MapPosition

BOOT_FRAMES = 120  # the machine's own start takes about 70
SETTLE_FRAMES = 4  # to draw what was written to memory


@dataclass(frozen=True)
class StartMoment:
    """How an episode begins."""

    player: MapPosition
    key_place: int
    facing: int
    walker_x: int
    walker_left: bool = False


STARTS = (
    StartMoment(MapPosition(CLEARING, 60, 36), 0, mem.DOWN, 28),
    StartMoment(MapPosition(CLEARING, 76, 84), 1, mem.RIGHT, 60),
    StartMoment(MapPosition(CLEARING, 84, 92), 2, mem.UP, 44, walker_left=True),
    StartMoment(MapPosition(CLEARING, 68, 60), 3, mem.RIGHT, 32),
    StartMoment(MapPosition(CLEARING, 92, 36), 1, mem.DOWN, 52, walker_left=True),
    StartMoment(MapPosition(CLEARING, 52, 76), 2, mem.UP, 36),
    StartMoment(MapPosition(CLEARING, 84, 68), 0, mem.LEFT, 64, walker_left=True),
    StartMoment(MapPosition(CLEARING, 44, 52), 3, mem.RIGHT, 40),
)


def starts_file() -> str:
    """The starts as the world reads them: per start, the value at each address of memory."""
    starts = [{f"{address:#06x}": value for address, value in _values(start).items()} for start in STARTS]
    table = {"boot_frames": BOOT_FRAMES, "settle_frames": SETTLE_FRAMES, "starts": starts}
    return json.dumps(table, indent=2) + "\n"


def _values(start: StartMoment) -> dict[int, int]:
    return {
        mem.PLAYER_X: start.player.x,
        mem.PLAYER_Y: start.player.y,
        mem.ROOM: start.player.room,
        mem.KEY_PLACE: start.key_place,
        mem.FACING: start.facing,
        mem.WALKER_X: start.walker_x,
        mem.WALKER_LEFT: int(start.walker_left),
    }
