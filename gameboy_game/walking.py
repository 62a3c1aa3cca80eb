"""The player walks: one dot a frame, not through what is solid, and over an edge into the next room."""

from __future__ import annotations

from dataclasses import dataclass

from gameboy_game import memory_map as mem
from gameboy_game.asm import Assembler
from gameboy_game.operands import (
    AT_HL,
    BC,
    HL,
    IF_NO_CARRY,
    IF_NOT_ZERO,
    IF_ZERO,
    A,
    B,
    C,
    H,
    L,
    at,
    high,
)
from gameboy_game.rooms import HEIGHT, WIDTH
from gameboy_game.tiles import SIZE

# The player stands on a square of 8 x 8 dots: 4 to the left of and above the middle, 3 to the right and below.
BEFORE, AFTER = 4, 3
FIRST = BEFORE  # the least x and y in a room
LAST_X, LAST_Y = WIDTH * SIZE - 1 - AFTER, HEIGHT * SIZE - 1 - AFTER


@dataclass(frozen=True)
class Direction:
    """A way to walk."""

    name: str
    facing: int
    button: int
    along: int  # where the coordinate that changes is kept
    step: int
    edge: int  # its last value in a room
    entry: int  # and its first in the room beyond


DIRECTIONS = (
    Direction("right", mem.RIGHT, mem.PAD_RIGHT, mem.PLAYER_X, +1, LAST_X, FIRST),
    Direction("left", mem.LEFT, mem.PAD_LEFT, mem.PLAYER_X, -1, FIRST, LAST_X),
    Direction("up", mem.UP, mem.PAD_UP, mem.PLAYER_Y, -1, FIRST, LAST_Y),
    Direction("down", mem.DOWN, mem.PAD_DOWN, mem.PLAYER_Y, +1, LAST_Y, FIRST),
)


def walk(a: Assembler) -> None:
    """Walk where the pad says; of several directions, the first one counts."""
    # walk: spoils everything
    a.label("walk")
    a.ld(A, at(mem.HELD))
    for way in DIRECTIONS:
        a.bit(way.button, A)
        a.jp(IF_NOT_ZERO, f"walk_{way.name}")  # which comes back in our place
    a.ret()
    for way in DIRECTIONS:
        _walk_one_way(a, way)


def _walk_one_way(a: Assembler, way: Direction) -> None:
    # walk_right, walk_left, walk_up, walk_down: spoil everything
    a.label(f"walk_{way.name}")
    a.ld(A, way.facing)
    a.ld(at(mem.FACING), A)
    a.ld(HL, mem.STEPS)
    a.inc(AT_HL)
    a.ld(A, at(way.along))
    a.cp(way.edge)
    a.jr(IF_ZERO, f"leave_{way.name}")
    for other_side in (-BEFORE, AFTER):  # both corners of the square on the side that moves
        _ask_corner(a, way, other_side)
        a.call("is_solid")
        a.ret(IF_NO_CARRY)
    a.ld(HL, way.along)
    (a.inc if way.step > 0 else a.dec)(AT_HL)
    a.ret()

    a.label(f"leave_{way.name}")
    a.ld(A, way.entry)
    a.ld(at(way.along), A)
    a.ld(HL, f"rooms_{way.name}")  # the room beyond this edge, for each room
    a.ld(A, at(mem.ROOM))
    a.ld(C, A)
    a.ld(B, 0)
    a.add(HL, BC)
    a.ld(A, AT_HL)
    a.ld(at(mem.ROOM), A)
    a.ret()


def _ask_corner(a: Assembler, way: Direction, other_side: int) -> None:
    """B and C = x and y of a corner that the next step brings forward."""
    ahead = way.step + (AFTER if way.step > 0 else -BEFORE)
    for register, place in ((B, mem.PLAYER_X), (C, mem.PLAYER_Y)):
        offset = ahead if place == way.along else other_side
        a.ld(A, at(place))
        a.add(A, offset & 0xFF)  # below zero, it is 256 minus so much: the sum comes out the same
        a.ld(register, A)


def is_solid(a: Assembler, first_solid: int) -> None:
    """What stands at a point of the player's room."""
    # is_solid: given x in B and y in C, carry if one can walk there; spoils A, BC, HL
    a.label("is_solid")
    a.call("find_tile")
    a.add(A, high("rooms"))
    a.ld(H, A)
    a.ld(A, AT_HL)
    a.cp(first_solid)  # carry: the tile's number is lower
    a.ret()


def find_tile(a: Assembler) -> None:
    """Where a point of the player's room is in all tables that are laid out as tile maps are."""
    # find_tile: given x in B and y in C, HL = room * 512 + (y / 8) * 32 + x / 8, and A = H; spoils A, B, HL
    a.label("find_tile")
    a.ld(A, C)
    a.and_(0xF8)  # y / 8 * 8
    a.ld(L, A)
    a.ld(H, 0)
    a.add(HL, HL)
    a.add(HL, HL)  # * 4
    for _ in range(3):
        a.srl(B)  # x / 8
    a.ld(A, L)
    a.or_(B)
    a.ld(L, A)
    a.ld(A, at(mem.ROOM))
    a.add(A, A)  # two times 256 bytes a room
    a.add(A, H)
    a.ld(H, A)
    a.ret()
