"""The sprites: the player, the walker, the key. They are written to memory, and shown when the next frame begins."""

from __future__ import annotations

from gameboy_game import hardware as hw
from gameboy_game import memory_map as mem
from gameboy_game.asm import Assembler
from gameboy_game.operands import (
    AT_HL,
    AT_HL_UP,
    HL,
    IF_CARRY,
    IF_NO_CARRY,
    IF_NOT_ZERO,
    IF_ZERO,
    A,
    B,
    C,
    D,
    E,
    at,
)
from gameboy_game.tiles import Tiles

PLAYER_SPRITE, WALKER_SPRITE, SMALL_SPRITE = (mem.SPRITES + 4 * i for i in (0, 2, 4))
HEART_ABOVE = 9  # dots above the player's feet, where the heart of a won game is
BLINK = 2  # the bit of a count of frames that makes the player blink
LEGS = 3  # the bit of a count of steps or frames that moves legs


def draw_player(a: Assembler, tiles: Tiles) -> None:
    """The picture depends on where the player faces; legs move by mirroring it, or by a second picture."""
    sprites = tiles.sprites
    # draw_player: spoils everything
    a.label("draw_player")
    a.ld(HL, PLAYER_SPRITE)
    a.ld(A, at(mem.PLAYER_X))
    a.ld(B, A)
    a.ld(A, at(mem.PLAYER_Y))
    a.ld(C, A)
    a.ld(E, 0)  # not mirrored
    a.ld(D, sprites["UNDER_THE_HAT"])
    a.ld(A, at(mem.MODE))
    a.cp(mem.LOST)
    a.jr(IF_ZERO, "draw_figure")
    a.ld(A, at(mem.HURT))
    a.bit(BLINK, A)
    a.jr(IF_NOT_ZERO, "draw_nothing")
    a.ld(A, at(mem.FACING))
    a.cp(mem.RIGHT)
    a.jr(IF_NO_CARRY, "from_the_side")
    a.ld(D, sprites["FROM_FRONT"])
    a.or_(A)
    a.jr(IF_ZERO, "swing_arms")
    a.ld(D, sprites["FROM_BEHIND"])
    a.label("swing_arms")
    a.ld(A, at(mem.STEPS))
    a.bit(LEGS, A)
    a.jr(IF_ZERO, "draw_figure")
    a.ld(E, hw.MIRRORED)
    a.jr("draw_figure")

    a.label("from_the_side")
    a.jr(IF_ZERO, "faces_right")
    a.ld(E, hw.MIRRORED)
    a.label("faces_right")
    a.ld(D, sprites["FROM_THE_SIDE"])
    a.ld(A, at(mem.STEPS))
    a.bit(LEGS, A)
    a.jr(IF_ZERO, "draw_figure")
    a.ld(D, sprites["FROM_THE_SIDE_STRIDING"])
    a.jr("draw_figure")


def draw_walker(a: Assembler, tiles: Tiles) -> None:
    """Where it goes is where it looks."""
    # draw_walker: spoils everything
    a.label("draw_walker")
    a.ld(HL, WALKER_SPRITE)
    a.ld(A, at(mem.WALKER_ROOM))
    a.ld(B, A)
    a.ld(A, at(mem.ROOM))
    a.cp(B)
    a.jr(IF_NOT_ZERO, "draw_nothing")
    a.ld(A, at(mem.WALKER_X))
    a.ld(B, A)
    a.ld(A, at(mem.WALKER_Y))
    a.ld(C, A)
    a.ld(E, 0)
    a.ld(A, at(mem.WALKER_LEFT))
    a.or_(A)
    a.jr(IF_ZERO, "walker_faces_right")
    a.ld(E, hw.MIRRORED)
    a.label("walker_faces_right")
    a.ld(D, tiles.sprites["WALKER"])
    a.ld(A, at(mem.WALKER_X))
    a.bit(LEGS - 1, A)
    a.jr(IF_ZERO, "draw_figure")
    a.ld(D, tiles.sprites["WALKER_STRIDING"])
    a.jr("draw_figure")


def draw_figure(a: Assembler) -> None:
    """A figure is 16 dots wide, so it is two sprites side by side; mirrored, they change places."""
    # draw_figure: given the sprites' address in HL, x and y of the feet in B and C, the first tile in D, and MIRRORED
    # or 0 in E; spoils A, HL
    a.label("draw_figure")
    a.ldh(A, at(hw.WINDOW_Y))
    a.sub(4)
    a.cp(C)
    a.jr(IF_CARRY, "draw_nothing")  # it would stand before the risen panel
    for half in (0, 1):
        a.ld(A, C)
        a.add(A, 4)  # feet to head is 12 dots up, and the screen wants 16 more
        a.ld(AT_HL_UP, A)
        a.ld(A, B)
        a.add(A, 8 * half)  # feet to left side is 8 dots, and the screen wants 8 more
        a.ld(AT_HL_UP, A)
        a.ld(A, E)
        a.or_(A)
        a.ld(A, D)
        a.jr(IF_NOT_ZERO if half == 0 else IF_ZERO, f"right_half_{half}")
        a.jr(f"half_chosen_{half}")
        a.label(f"right_half_{half}")
        a.add(A, 2)
        a.label(f"half_chosen_{half}")
        a.ld(AT_HL_UP, A)
        a.ld(A, E)
        a.ld(AT_HL_UP, A)
    a.ret()

    # draw_nothing: hide the two sprites at HL; spoils A, HL
    a.label("draw_nothing")
    a.ld(A, 0)  # at y = 0, a sprite is above the screen
    for _ in range(8):
        a.ld(AT_HL_UP, A)
    a.ret()


def draw_key_or_heart(a: Assembler, tiles: Tiles) -> None:
    """The key where it lies, until it is taken; over the player's head a heart, once the game is won."""
    # draw_key_or_heart: spoils A, B, C, D, HL
    a.label("draw_key_or_heart")
    a.ld(HL, SMALL_SPRITE)
    a.ld(A, at(mem.HAS_KEY))
    a.or_(A)
    a.jr(IF_NOT_ZERO, "key_is_taken")
    a.ld(A, at(mem.KEY_ROOM))
    a.ld(B, A)
    a.ld(A, at(mem.ROOM))
    a.cp(B)
    a.jr(IF_NOT_ZERO, "nothing_small")
    a.ld(A, at(mem.KEY_X))
    a.ld(B, A)
    a.ld(A, at(mem.KEY_Y))
    a.ld(C, A)
    a.ld(D, tiles.sprites["KEY"])
    a.jr("draw_small")

    a.label("key_is_taken")
    a.ld(A, at(mem.MODE))
    a.cp(mem.WON)
    a.jr(IF_NOT_ZERO, "nothing_small")
    a.ld(A, at(mem.PLAYER_X))
    a.ld(B, A)
    a.ld(A, at(mem.PLAYER_Y))
    a.sub(HEART_ABOVE)
    a.ld(C, A)
    a.ld(D, tiles.sprites["HEART"])

    # draw_small: one sprite, which bobs up and down; given its address in HL, x and y in B and C, the tile in D
    a.label("draw_small")
    a.ld(A, at(mem.FRAME))
    a.swap(A)
    a.and_(1)  # 0 and 1 in turn, 16 frames each
    a.add(A, 4)
    a.add(A, C)
    a.ld(AT_HL_UP, A)
    a.ld(A, B)
    a.add(A, 4)
    a.ld(AT_HL_UP, A)
    a.ld(A, D)
    a.ld(AT_HL_UP, A)
    a.ret()

    a.label("nothing_small")
    a.ld(AT_HL, 0)  # y = 0 is above the screen
    a.ret()
