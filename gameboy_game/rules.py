"""The rules: button A takes and opens, the walker walks and hurts, and how far it is to the next thing."""

from __future__ import annotations

from gameboy_game import memory_map as mem
from gameboy_game.asm import Assembler
from gameboy_game.operands import (
    AT_HL,
    AT_HL_UP,
    BC,
    HL,
    IF_CARRY,
    IF_NO_CARRY,
    IF_NOT_ZERO,
    IF_ZERO,
    A,
    B,
    C,
    H,
    at,
    high,
)
from gameboy_game.rooms import KEY_PLACES, ROOMS, WALKER_EAST, WALKER_WEST

THE_DOOR = len(KEY_PLACES)  # the number of the door among what can be fetched, after the places of the key
PAGES = 2 * len(ROOMS)  # of 256 bytes: what a table with a byte for every tile takes
TOUCH_X, TOUCH_Y = 12, 10  # nearer than this, in dots, the walker hurts


def use_button_a(a: Assembler) -> None:
    """Within reach (the scent is 0), A takes the key; who has the key opens the door, and the game is won."""
    # use_button_a: spoils A
    a.label("use_button_a")
    a.ld(A, at(mem.HELD))
    a.bit(mem.BUTTON_A, A)
    a.ret(IF_ZERO)
    a.ld(A, at(mem.SCENT))
    a.or_(A)  # zero?
    a.ret(IF_NOT_ZERO)
    a.ld(A, at(mem.HAS_KEY))
    a.or_(A)
    a.jr(IF_NOT_ZERO, "open_door")
    a.ld(A, 1)
    a.ld(at(mem.HAS_KEY), A)
    a.ret()

    a.label("open_door")
    a.ld(at(mem.DOOR_OPEN), A)  # A is 1, since there is a key
    a.ld(A, mem.WON)
    a.ld(at(mem.MODE), A)
    a.ret()


def walk_walker(a: Assembler) -> None:
    """The walker goes to and fro, a dot every other frame."""
    # walk_walker: spoils A, HL
    a.label("walk_walker")
    a.ld(A, at(mem.FRAME))
    a.bit(0, A)
    a.ret(IF_NOT_ZERO)
    a.ld(HL, mem.WALKER_X)
    a.ld(A, at(mem.WALKER_LEFT))
    a.or_(A)
    a.jr(IF_NOT_ZERO, "walker_left")
    a.inc(AT_HL)
    a.ld(A, AT_HL)
    a.cp(WALKER_EAST)
    a.ret(IF_CARRY)
    a.ld(A, 1)
    a.ld(at(mem.WALKER_LEFT), A)
    a.ret()

    a.label("walker_left")
    a.dec(AT_HL)
    a.ld(A, AT_HL)
    a.cp(WALKER_WEST + 1)
    a.ret(IF_NO_CARRY)
    a.ld(A, 0)
    a.ld(at(mem.WALKER_LEFT), A)
    a.ret()


def touch_walker(a: Assembler) -> None:
    """Who touches the walker loses a heart, and then is safe for a second; who loses the last one loses."""
    # touch_walker: spoils A, B, HL
    a.label("touch_walker")
    a.ld(HL, mem.HURT)
    a.ld(A, AT_HL)
    a.or_(A)
    a.jr(IF_ZERO, "not_safe")
    a.dec(AT_HL)
    a.ret()

    a.label("not_safe")
    a.ld(A, at(mem.WALKER_ROOM))
    a.ld(B, A)
    a.ld(A, at(mem.ROOM))
    a.cp(B)
    a.ret(IF_NOT_ZERO)
    for player, walker, near in ((mem.PLAYER_X, mem.WALKER_X, TOUCH_X), (mem.PLAYER_Y, mem.WALKER_Y, TOUCH_Y)):
        a.ld(A, at(walker))
        a.ld(B, A)
        a.ld(A, at(player))
        a.call("distance")
        a.cp(near)
        a.ret(IF_NO_CARRY)
    a.ld(A, mem.HURT_FRAMES)
    a.ld(at(mem.HURT), A)
    a.ld(HL, mem.HEARTS)
    a.dec(AT_HL)
    a.ret(IF_NOT_ZERO)
    a.ld(A, mem.LOST)
    a.ld(at(mem.MODE), A)
    a.ret()

    # distance: A = how far A and B are apart
    a.label("distance")
    a.sub(B)
    a.ret(IF_NO_CARRY)
    a.cpl()  # below zero: turn the sign round
    a.inc(A)
    a.ret()


def place_key(a: Assembler) -> None:
    """The key lies where the number of its place says."""
    # place_key: spoils A, BC, HL
    a.label("place_key")
    a.ld(A, at(mem.KEY_PLACE))
    a.ld(C, A)
    a.add(A, A)
    a.add(A, C)  # three bytes a place
    a.ld(C, A)
    a.ld(B, 0)
    a.ld(HL, "key_places")
    a.add(HL, BC)
    for target in (mem.KEY_X, mem.KEY_Y, mem.KEY_ROOM):
        a.ld(A, AT_HL_UP)
        a.ld(at(target), A)
    a.ret()


def smell(a: Assembler) -> None:
    """Look up how far it is from the player to what comes next, and to the end of the game."""
    # smell: sets SCENT and WAY; spoils A, BC, HL
    a.label("smell")
    a.ld(A, at(mem.PLAYER_X))
    a.ld(B, A)
    a.ld(A, at(mem.PLAYER_Y))
    a.ld(C, A)
    a.call("find_tile")
    a.ld(A, at(mem.HAS_KEY))
    a.or_(A)
    a.jr(IF_ZERO, "smell_key")
    a.ld(A, high("scents"))
    a.add(A, THE_DOOR * PAGES)
    a.add(A, H)
    a.ld(H, A)
    a.ld(A, AT_HL)
    a.ld(at(mem.SCENT), A)
    a.ld(at(mem.WAY), A)
    a.ret()

    a.label("smell_key")
    a.ld(A, at(mem.KEY_PLACE))
    a.ld(C, A)
    a.add(A, A)
    a.add(A, C)
    a.add(A, A)  # six pages a goal
    a.add(A, high("scents"))
    a.add(A, H)
    a.ld(H, A)
    a.ld(A, AT_HL)
    a.ld(at(mem.SCENT), A)
    a.ld(HL, "from_key_to_door")
    a.ld(B, 0)
    a.add(HL, BC)
    a.add(A, AT_HL)
    a.jr(IF_NO_CARRY, "way_known")
    a.ld(A, 255)
    a.label("way_known")
    a.ld(at(mem.WAY), A)
    a.ret()
