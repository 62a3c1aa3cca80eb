"""The meadow: its rooms as text, what lies where, and which room is beyond which edge.

A letter is a square of 16 x 16 dots (see tiles.py). A room fills the screen above the panel: 20 x 16 tiles of 8 dots.
"""

from __future__ import annotations

from dataclasses import dataclass

from gameboy_game.hardware import MAP_WIDTH
from gameboy_game.rom_image import AssemblyError
from gameboy_game.tiles import DOOR, Tiles

WIDTH, HEIGHT = 20, 16  # in tiles
CLEARING, POND, GARDEN = range(3)

ROOMS = (
    """
    TTTTTTTTTT
    TTrwwbTbTT
    Tb ,    ,
    T   f  :::
    T f    :::
    T  ,    f
    Tb==bTbrTT
    TTTTTTTTTT
    """,
    """
    TTTTTTTTTT
    TbTTTrwwrT
      f    ,bT
    ::     , T
    :::::,   T
     f ::   rT
    Tww::TrbTT
    TTT::TTTTT
    """,
    """
    TTT::TTTTT
    T ,::  , T
    T  ::123 T
    T ,::456fT
    Tb ::789 T
    T f:::::,T
    T,  === fT
    TTTTTTTTTT
    """,
)

# Which room lies beyond each edge. Where there is none, trees must stand.
EAST = {CLEARING: POND}
SOUTH = {POND: GARDEN}
WEST = {room: beyond for beyond, room in EAST.items()}
NORTH = {room: beyond for beyond, room in SOUTH.items()}


@dataclass(frozen=True)
class MapPosition:
    """A position on the map: the room, and the point between the feet in pixels."""

    room: int
    x: int
    y: int


PLAYER_START = MapPosition(CLEARING, 40, 68)
KEY_PLACES = (
    MapPosition(POND, 124, 44),
    MapPosition(POND, 132, 56),
    MapPosition(POND, 120, 64),
    MapPosition(POND, 132, 76),
)
WALKER_START = MapPosition(GARDEN, 28, 60)
WALKER_WEST, WALKER_EAST = 24, 68  # where it turns round

# How far from the player's feet a key or the door can be and still be reached, in tiles to the side and up or down.
REACH = 2


def letters(room: int) -> list[str]:
    """A room's map, a line for each row of squares."""
    lines = [line[4:].ljust(WIDTH // 2) for line in ROOMS[room].strip("\n").split("\n")[: HEIGHT // 2]]
    if [len(line) for line in lines] != [WIDTH // 2] * (HEIGHT // 2):
        raise AssemblyError(f"room {room} must be {HEIGHT // 2} lines of {WIDTH // 2} letters")
    return lines


def tile_rows(room: int, tiles: Tiles) -> list[list[int]]:
    """The tile numbers of a room, row by row."""
    lines = letters(room)
    return [[_tile(lines, column, row, tiles) for column in range(WIDTH)] for row in range(HEIGHT)]


def _tile(lines: list[str], column: int, row: int, tiles: Tiles) -> int:
    x, y = column // 2, row // 2
    letter = lines[y][x]
    beside, above = ("left", "right")[column % 2], ("top", "bottom")[row % 2]
    ends_beside = _letter(lines, x + (1 if column % 2 else -1), y, letter) != letter
    ends_above = _letter(lines, x, y + (1 if row % 2 else -1), letter) != letter
    return tiles.quarter(letter, beside, above, ends_beside, ends_above)


def _letter(lines: list[str], x: int, y: int, off_the_map: str) -> str:
    return lines[y][x] if 0 <= x < WIDTH // 2 and 0 <= y < HEIGHT // 2 else off_the_map


def map_bytes(rows: list[list[int]]) -> bytes:
    """Rows of tiles as they lie in a tile map, which is wider than the screen."""
    return b"".join(bytes(row).ljust(MAP_WIDTH, b"\0") for row in rows)


def door_tile() -> tuple[int, int, int]:
    """Room, column and row of the door's upper left tile."""
    for room in range(len(ROOMS)):
        for row, line in enumerate(letters(room)):
            if DOOR in line:
                return room, 2 * line.index(DOOR), 2 * row
    raise AssemblyError(f"no room has a door: put {DOOR!r} into one")
