"""The screen but for its sprites: which room is seen, and the panel with its hearts, key and messages."""

from __future__ import annotations

from gameboy_game import hardware as hw
from gameboy_game import memory_map as mem
from gameboy_game.asm import Assembler
from gameboy_game.operands import (
    AT_DE,
    AT_HL,
    AT_HL_UP,
    BC,
    DE,
    HL,
    IF_NOT_ZERO,
    IF_ZERO,
    A,
    B,
    C,
    E,
    at,
)
from gameboy_game.power_up import PANEL_MAP, ROOM_MAPS, SCREEN
from gameboy_game.rooms import WIDTH, door_tile
from gameboy_game.tiles import Tiles

HEARTS_AT = PANEL_MAP + hw.MAP_WIDTH + 1
KEY_AT = PANEL_MAP + hw.MAP_WIDTH + WIDTH - 2
MESSAGE_ROW = 3
MESSAGE_AT = PANEL_MAP + MESSAGE_ROW * hw.MAP_WIDTH
BELOW_MESSAGE_ROW = 5
RAISED_PANEL_TOP = 88  # the line where the panel begins once it has risen to show a message


def show_room(a: Assembler) -> None:
    """Let the screen show the part of video memory that the player's room is in."""
    # show_room: spoils A, BC, HL
    a.label("show_room")
    a.ld(A, at(mem.ROOM))
    a.add(A, A)
    a.ld(C, A)
    a.ld(B, 0)
    a.ld(HL, "room_views")
    a.add(HL, BC)
    a.ld(A, AT_HL_UP)
    a.ldh(at(hw.SCROLL_Y), A)
    a.ld(A, AT_HL_UP)
    a.ldh(at(hw.LCD_CONTROL), A)
    a.ret()


def show_hearts_and_key(a: Assembler, tiles: Tiles) -> None:
    """The upper line of the panel, when something on it has changed."""
    # show_hearts_and_key: spoils A, B, C, HL
    a.label("show_hearts_and_key")
    a.ld(A, at(mem.HEARTS))
    a.ld(B, A)
    a.ld(A, at(mem.HAS_KEY))
    a.add(A, A)
    a.add(A, A)
    a.or_(B)
    a.ld(HL, mem.SHOWN_ITEMS)
    a.cp(AT_HL)
    a.ret(IF_ZERO)
    a.ld(AT_HL, A)
    a.ld(HL, HEARTS_AT)
    a.ld(C, mem.FULL_HEARTS)
    a.label("next_heart")
    a.ld(A, B)
    a.or_(A)
    a.ld(A, tiles.single["NO_HEART"])  # `ld` leaves alone what the last sum said
    a.jr(IF_ZERO, "heart_chosen")
    a.dec(B)
    a.ld(A, tiles.single["FULL_HEART"])
    a.label("heart_chosen")
    a.ld(AT_HL_UP, A)
    a.dec(C)
    a.jr(IF_NOT_ZERO, "next_heart")
    a.ld(A, at(mem.HAS_KEY))
    a.or_(A)
    a.ld(A, tiles.single["NO_KEY"])
    a.jr(IF_ZERO, "key_chosen")
    a.ld(A, tiles.single["OWN_KEY"])
    a.label("key_chosen")
    a.ld(at(KEY_AT), A)
    a.ret()


def show_message(a: Assembler, tiles: Tiles) -> None:
    """In every mode but playing, the panel rises and says what happened."""
    # show_message: spoils everything
    a.label("show_message")
    a.ld(A, at(mem.MODE))
    a.cp(mem.PLAYING)
    a.ret(IF_ZERO)
    a.ld(B, A)
    a.ld(A, at(mem.SHOWN_MODE))
    a.cp(B)
    a.jr(IF_NOT_ZERO, "write_message")
    a.ldh(A, at(hw.WINDOW_Y))
    a.cp(RAISED_PANEL_TOP)
    a.ret(IF_ZERO)
    a.sub(2)
    a.ldh(at(hw.WINDOW_Y), A)
    a.ret()

    a.label("write_message")  # B: the mode
    a.ld(A, B)
    a.ld(at(mem.SHOWN_MODE), A)
    a.ld(HL, "messages")
    a.ld(DE, hw.MAP_WIDTH)
    a.or_(A)
    a.jr(IF_ZERO, "message_found")
    a.label("next_message")
    a.add(HL, DE)
    a.dec(A)
    a.jr(IF_NOT_ZERO, "next_message")
    a.label("message_found")
    a.ld(DE, MESSAGE_AT)
    a.ld(C, WIDTH)
    a.label("next_letter")
    a.ld(A, AT_HL_UP)
    a.ld(AT_DE, A)
    a.inc(E)
    a.dec(C)
    a.jr(IF_NOT_ZERO, "next_letter")
    a.ld(A, at(mem.DOOR_OPEN))
    a.or_(A)
    a.ret(IF_ZERO)
    _open_the_door(a, tiles)
    a.ret()


def _open_the_door(a: Assembler, tiles: Tiles) -> None:
    room, column, row = door_tile()
    for y, line in enumerate(tiles.open_door):
        for x, tile in enumerate(line):
            a.ld(A, tile)
            a.ld(at(ROOM_MAPS[room] + (row + y) * hw.MAP_WIDTH + column + x), A)


def room_views() -> bytes:
    """For each room: how far the screen scrolls down its tile map, and what the screen is switched to."""
    return bytes(
        value
        for address in ROOM_MAPS
        for value in (
            (address & 0x3FF) // hw.MAP_WIDTH * 8,
            SCREEN | (hw.BACKGROUND_FROM_9C00 if address >= hw.SECOND_MAP else 0),
        )
    )
