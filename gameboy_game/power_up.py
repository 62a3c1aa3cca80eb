"""From power-up to the first frame: fill video memory, set the screen up, put everything in its place.

How to read this and the next files: `a.ld(A, 5)` adds to the ROM the instruction that puts 5 into A; nothing runs
before an emulator runs it. A routine begins at its label, is called with `call` and ends with `ret`; the comment above
it says what it is given, what it gives back and which registers it spoils.
"""

from __future__ import annotations

from gameboy_game import hardware as hw
from gameboy_game import memory_map as mem
from gameboy_game.asm import Assembler
from gameboy_game.operands import (
    AT_DE,
    AT_HL_UP,
    BC,
    DE,
    HL,
    IF_NOT_ZERO,
    IF_ZERO,
    SP,
    A,
    B,
    C,
    at,
)
from gameboy_game.rooms import KEY_PLACES, PLAYER_START, ROOMS, WALKER_START

PANEL_TOP = 128  # the line where the panel begins while one plays: just below the room
ROOM_BYTES = 512  # of a tile map
# The two tile maps have space for four rooms, one above the other; the panel takes the place of one of them. So all
# rooms are in video memory at all times, and going to another one only means to show another part of it.
ROOM_MAPS = (hw.FIRST_MAP, hw.FIRST_MAP + ROOM_BYTES, hw.SECOND_MAP + ROOM_BYTES)
PANEL_MAP = hw.SECOND_MAP
SCREEN = (
    hw.LCD_ON | hw.WINDOW_FROM_9C00 | hw.WINDOW_ON | hw.TILES_AT_8000 | hw.TALL_SPRITES | hw.SPRITES_ON
) | hw.BACKGROUND_ON
DARKER_NUMBERS_ARE_DARKER = 0b11_10_01_00
WITH_WHITE_FOR_LIGHT_GREY = 0b11_10_00_00  # so that sprites have white, black and dark grey
COPY_SPRITES = hw.HIGH_MEMORY  # where the routine of that name is put, and how long it is
COPY_SPRITES_BYTES = 10

FIRST_VALUES = {
    mem.PLAYER_X: PLAYER_START.x,
    mem.PLAYER_Y: PLAYER_START.y,
    mem.ROOM: PLAYER_START.room,
    mem.HEARTS: mem.FULL_HEARTS,
    mem.WALKER_X: WALKER_START.x,
    mem.WALKER_Y: WALKER_START.y,
    mem.WALKER_ROOM: WALKER_START.room,
    mem.SCENT: 255,
    mem.SHOWN_MODE: mem.PLAYING,
    mem.SHOWN_ITEMS: 255,  # none yet
}


def power_up(a: Assembler) -> None:
    """Where the machine begins, and where START begins again after a game."""
    a.label("power_up")
    a.di()
    a.ld(SP, hw.STACK_TOP)
    a.call("read_joypad")
    a.ld(C, mem.PLAYING)
    a.ld(A, at(mem.HELD))
    a.bit(mem.BUTTON_START, A)
    a.jr(IF_ZERO, "no_title")
    a.ld(C, mem.TITLE)
    a.label("no_title")
    a.ld(B, 0)  # the first place of the key
    a.jr("new_game")

    a.label("play_again")
    a.di()
    a.ld(SP, hw.STACK_TOP)
    a.ld(C, mem.PLAYING)
    a.ld(A, at(mem.KEY_PLACE))  # the key moves on to the next place; after the last comes the first
    a.add(A, 1)
    a.and_(len(KEY_PLACES) - 1)
    a.ld(B, A)

    # B: the key's place, C: the mode to begin in
    a.label("new_game")
    a.push(BC)
    a.call("screen_off")
    a.call("fill_video_memory")
    a.call("clear_memory")
    a.call("read_joypad")  # so that a button that is down already does not count as pressed
    for place, value in FIRST_VALUES.items():
        a.ld(A, value)
        a.ld(at(place), A)
    a.pop(BC)
    a.ld(A, B)
    a.ld(at(mem.KEY_PLACE), A)
    a.ld(A, C)
    a.ld(at(mem.MODE), A)
    a.call("screen_on")
    a.jp("every_frame")


def screen_off_and_on(a: Assembler) -> None:
    """Switch the screen off (which is allowed only in the vertical blank) and on again."""
    # screen_off: spoils A
    a.label("screen_off")
    a.ldh(A, at(hw.LCD_LINE))
    a.cp(144)
    a.jr(IF_NOT_ZERO, "screen_off")
    a.ld(A, 0)
    a.ldh(at(hw.LCD_CONTROL), A)
    a.ret()

    # screen_on: spoils A
    registers = {
        hw.PALETTE: DARKER_NUMBERS_ARE_DARKER,
        hw.SPRITE_PALETTE: WITH_WHITE_FOR_LIGHT_GREY,
        hw.SCROLL_X: 0,
        hw.SCROLL_Y: 0,
        hw.WINDOW_X: 7,
        hw.WINDOW_Y: PANEL_TOP,
        hw.INTERRUPTS_PENDING: 0,
        hw.INTERRUPTS_WANTED: hw.VERTICAL_BLANK,
        hw.LCD_CONTROL: SCREEN,
    }
    a.label("screen_on")
    for register, value in registers.items():
        a.ld(A, value)
        a.ldh(at(register), A)
    a.ei()
    a.ret()


def filling(a: Assembler, tile_bytes: int, panel_bytes: int) -> None:
    """Routines that copy tiles, rooms and the panel to video memory, and clear working memory."""
    # fill_video_memory: spoils everything
    a.label("fill_video_memory")
    copies: list[tuple[str, int, int]] = [("tiles", hw.VIDEO_TILES, tile_bytes), ("panel", PANEL_MAP, panel_bytes)]
    copies += [(f"room_{room}", ROOM_MAPS[room], ROOM_BYTES) for room in range(len(ROOMS))]
    copies += [("copy_sprites", COPY_SPRITES, COPY_SPRITES_BYTES)]
    for source, target, size in copies:
        a.ld(HL, source)
        a.ld(DE, target)
        a.ld(BC, size)
        a.call("copy")
    a.ret()

    # copy: BC bytes from HL to DE; spoils A, BC, DE, HL
    a.label("copy")
    a.ld(A, AT_HL_UP)
    a.ld(AT_DE, A)
    a.inc(DE)
    a.dec(BC)
    a.ld(A, B)
    a.or_(C)
    a.jr(IF_NOT_ZERO, "copy")
    a.ret()

    # clear_memory: zeros for the sprites and all that the game knows; spoils A, C, HL
    a.label("clear_memory")
    a.ld(HL, mem.SPRITES)
    a.ld(C, 0)  # counts 256 down: from 0 to 255, and so on
    a.ld(A, 0)
    a.label("clear_next")
    a.ld(AT_HL_UP, A)
    a.dec(C)
    a.jr(IF_NOT_ZERO, "clear_next")
    a.ret()


def copy_sprites(a: Assembler) -> None:
    """Hand all sprites to the screen. While that lasts, only high memory can be reached, so this must run there."""
    a.label("copy_sprites")
    a.ld(A, mem.SPRITES >> 8)
    a.ldh(at(hw.SPRITE_COPY), A)
    a.ld(A, 40)
    a.label("wait_for_sprites")
    a.dec(A)
    a.jr(IF_NOT_ZERO, "wait_for_sprites")
    a.ret()
