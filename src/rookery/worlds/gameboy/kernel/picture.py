"""The picture: background, window and objects (Pan Docs, "Rendering overview").

While a frame is drawn, each line's registers are kept when its drawing ends. When the last line is done, the video RAM
and the objects are kept as they are then. `pixel` computes any pixel from that, at any time until the next picture, so
nothing is drawn that is not looked at, and a GPU can compute all pixels at once.
"""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import inlined, whole
from rookery.worlds.gameboy.kernel.layout import (
    BGP,
    HEIGHT,
    LCDC,
    LINE_BYTES,
    LINE_OBJECTS,
    LINES,
    OAM,
    OBJECTS_BYTES,
    OBP0,
    OBP1,
    SCX,
    SCY,
    SHOWN_OAM,
    SHOWN_VRAM,
    VRAM,
    WX,
)

NO_WINDOW = 255  # in place of the window's line
MOST_OBJECTS = 10  # of a line
KEPT_LCDC, KEPT_SCX, KEPT_SCY, KEPT_BGP, KEPT_OBP0, KEPT_OBP1, KEPT_WX, KEPT_WINDOW = range(8)


def keep_line(state: Any, memory: Any, line: int) -> None:
    """Keep the registers of a line, when it is drawn."""
    at = LINES + LINE_BYTES * line
    lcdc = whole(memory[LCDC])
    memory[at + KEPT_LCDC] = lcdc
    memory[at + KEPT_SCX] = memory[SCX]
    memory[at + KEPT_SCY] = memory[SCY]
    memory[at + KEPT_BGP] = memory[BGP]
    memory[at + KEPT_OBP0] = memory[OBP0]
    memory[at + KEPT_OBP1] = memory[OBP1]
    memory[at + KEPT_WX] = memory[WX]
    if lcdc & 0x20 and lcdc & 1 and state.window_open and whole(memory[WX]) < 167:
        memory[at + KEPT_WINDOW] = state.window_line
        state.window_line += 1
    else:
        memory[at + KEPT_WINDOW] = NO_WINDOW


def keep_picture(state: Any, memory: Any) -> None:
    """Keep video RAM and objects, when the last line is drawn."""
    state.shown = 0 if state.first_frame else 1
    for k in range(0x2000):
        memory[SHOWN_VRAM + k] = memory[VRAM + k]
    for k in range(160):
        memory[SHOWN_OAM + k] = memory[OAM + k]
    _list_objects(memory)


def _list_objects(memory: Any) -> None:
    """The objects of each line: how many, and which, in the order of their attributes."""
    for line in range(HEIGHT):
        memory[LINE_OBJECTS + OBJECTS_BYTES * line] = 0
    for k in range(40):
        top = whole(memory[SHOWN_OAM + 4 * k]) - 16
        for line in range(max(top, 0), min(top + 16, HEIGHT)):
            lcdc = whole(memory[LINES + LINE_BYTES * line])
            if line < top + (16 if lcdc & 4 else 8):
                at = LINE_OBJECTS + OBJECTS_BYTES * line
                found = whole(memory[at])
                if found < MOST_OBJECTS:
                    memory[at] = found + 1
                    memory[at + 1 + found] = k


@inlined
def pixel(state: Any, memory: Any, y: int, x: int) -> int:
    """The shade of one pixel of the last picture: 0 (white) to 3."""
    if not state.shown:
        return 0
    at = LINES + LINE_BYTES * y
    lcdc = whole(memory[at + KEPT_LCDC])
    color = _background_color(memory, at, lcdc, y, x) if lcdc & 1 else 0
    behind = (whole(memory[at + KEPT_BGP]) >> (2 * color)) & 3 if lcdc & 1 else 0
    if not lcdc & 2:
        return behind
    shade = behind
    objects = LINE_OBJECTS + OBJECTS_BYTES * y
    nearest = 256
    for k in range(whole(memory[objects])):
        entry = SHOWN_OAM + 4 * whole(memory[objects + 1 + k])
        left = whole(memory[entry + 1])
        column = x + 8 - left
        if column >= 0 and column < 8 and left < nearest:
            flags = whole(memory[entry + 3])
            dots = _object_color(memory, entry, flags, lcdc, y, column)
            if dots:
                nearest = left
                palette = whole(memory[at + (KEPT_OBP1 if flags & 0x10 else KEPT_OBP0)])
                shade = behind if flags & 0x80 and color else (palette >> (2 * dots)) & 3
    return shade


@inlined
def _background_color(memory: Any, at: int, lcdc: int, y: int, x: int) -> int:
    """The color of the background or the window, before its palette."""
    window, left = whole(memory[at + KEPT_WINDOW]), whole(memory[at + KEPT_WX]) - 7
    if window != NO_WINDOW and x >= left:
        column, row, tiles = x - left, window, 0x1C00 if lcdc & 0x40 else 0x1800
    else:
        column = (x + whole(memory[at + KEPT_SCX])) & 255
        row = (y + whole(memory[at + KEPT_SCY])) & 255
        tiles = 0x1C00 if lcdc & 0x08 else 0x1800
    tile = whole(memory[SHOWN_VRAM + tiles + (row >> 3) * 32 + (column >> 3)])
    if not lcdc & 0x10 and tile < 128:
        tile += 256
    return _tile_color(memory, tile * 16 + (row & 7) * 2, 7 - (column & 7))


@inlined
def _object_color(memory: Any, entry: int, flags: int, lcdc: int, y: int, column: int) -> int:
    """The color of an object, before its palette; 0 is transparent."""
    height = 16 if lcdc & 4 else 8
    row = y + 16 - whole(memory[entry])
    if flags & 0x40:
        row = height - 1 - row
    tile = whole(memory[entry + 2])
    if height == 16:
        tile &= 0xFE
    return _tile_color(memory, tile * 16 + row * 2, column if flags & 0x20 else 7 - column)


@inlined
def _tile_color(memory: Any, at: int, bit: int) -> int:
    low, high = whole(memory[SHOWN_VRAM + at]), whole(memory[SHOWN_VRAM + at + 1])
    return (low >> bit) & 1 | ((high >> bit) & 1) << 1
