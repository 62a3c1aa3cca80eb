"""What happens in every frame, and the joypad."""

from __future__ import annotations

from gameboy_game import hardware as hw
from gameboy_game import memory_map as mem
from gameboy_game.asm import Assembler
from gameboy_game.operands import AT_HL, HL, IF_NOT_ZERO, IF_ZERO, A, B, C, at
from gameboy_game.power_up import COPY_SPRITES

PICTURES = (COPY_SPRITES, "show_room", "show_hearts_and_key", "show_message")
RULES = ("use_button_a", "walk", "walk_walker", "touch_walker", "place_key", "smell")
SPRITES = ("draw_player", "draw_walker", "draw_key_or_heart")


def every_frame(a: Assembler) -> None:
    """Sleep until the screen has been drawn, change pictures, read the joypad, play on.

    All of it is done before the vertical blank ends. So a program that reads memory between two frames, as an emulator
    lets one do, never meets a move that is half made.
    """
    a.label("every_frame")
    a.halt()
    a.nop()
    for picture in PICTURES:  # first, since pictures may change only in the vertical blank
        a.call(picture)
    a.ld(HL, mem.FRAME)
    a.inc(AT_HL)
    a.call("read_joypad")
    a.ld(A, at(mem.MODE))
    a.cp(mem.PLAYING)
    a.jr(IF_NOT_ZERO, "not_playing")
    for routine in RULES:
        a.call(routine)
    a.label("draw")
    for routine in SPRITES:
        a.call(routine)
    a.jr("every_frame")

    a.label("not_playing")
    a.ld(A, at(mem.PRESSED))
    a.bit(mem.BUTTON_START, A)
    a.jr(IF_ZERO, "draw")
    a.jp("play_again")


def read_joypad(a: Assembler) -> None:
    """All buttons in one byte, and those among them that were not down a frame ago."""
    # read_joypad: sets HELD and PRESSED; spoils A, B, C
    a.label("read_joypad")
    for row in (hw.CHOOSE_DIRECTIONS, hw.CHOOSE_BUTTONS):
        a.ld(A, row)
        a.ldh(at(hw.JOYPAD), A)
        for _ in range(2):  # the wires need a moment
            a.ldh(A, at(hw.JOYPAD))
        a.cpl()  # 1 for a button that is down
        a.and_(0x0F)
        if row == hw.CHOOSE_DIRECTIONS:
            a.swap(A)  # directions above, buttons below
            a.ld(B, A)
    a.or_(B)
    a.ld(C, A)
    a.ld(A, at(mem.HELD))
    a.cpl()
    a.and_(C)
    a.ld(at(mem.PRESSED), A)
    a.ld(A, C)
    a.ld(at(mem.HELD), A)
    a.ret()
