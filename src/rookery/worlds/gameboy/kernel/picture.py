"""The picture: background, window and objects (Pan Docs, "Rendering overview").

While a frame is drawn, each line's registers are kept when its drawing ends. When the last line is done, the video RAM
and the objects are kept as they are then. `draw_line` draws from that, at any time until the next picture, and only the
pixels that are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
    WIDTH,
    WX,
)

GREYS = np.array([255, 153, 85, 0], np.uint8)  # of the shades, as PyBoy shows them
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


def draw_line(memory: Any, y: int, columns: Any, out: Any) -> None:
    """Write some columns of line `y` of the last picture to `out`, in grey."""
    at = LINES + LINE_BYTES * y
    lcdc = whole(memory[at + KEPT_LCDC])
    if lcdc & 1:
        _draw_background(memory, at, lcdc, y, columns, out)
    else:
        for k in range(len(columns)):
            out[k] = GREYS[0]
    if lcdc & 2:
        _draw_objects(memory, at, lcdc, y, columns, out)


def _draw_background(memory: Any, at: int, lcdc: int, y: int, columns: Any, out: Any) -> None:
    """Write the background, and right of it the window."""
    left = whole(memory[at + KEPT_WX]) - 7
    count = window = len(columns)
    if whole(memory[at + KEPT_WINDOW]) != NO_WINDOW:
        window = min(max(0, _column_of(left, count)), count)
    greys = _greys(whole(memory[at + KEPT_BGP]))
    row, scx = y + whole(memory[at + KEPT_SCY]) & 255, whole(memory[at + KEPT_SCX])
    for k in range(window):
        color = _map_color(memory, lcdc, lcdc & 0x08, row, whole(columns[k]) + scx & 255)
        out[k] = greys >> 8 * color & 255
    row = whole(memory[at + KEPT_WINDOW])
    for k in range(window, count):
        color = _map_color(memory, lcdc, lcdc & 0x40, row, whole(columns[k]) - left)
        out[k] = greys >> 8 * color & 255


def _column_of(x: int, count: int) -> int:
    """The first of `count` columns, spread over the screen, that is not left of `x`."""
    return (x * count + WIDTH - 1) // WIDTH


@inlined
def _map_color(memory: Any, lcdc: int, second: int, row: int, column: int) -> int:
    """The color of a dot of the first or second tile map, before its palette. No branches: they would be mispredicted
    at the edges of tiles, and cost more than all the rest."""
    tile = whole(memory[SHOWN_VRAM + (0x1C00 if second else 0x1800) + (row >> 3) * 32 + (column >> 3)])
    signed = (lcdc & 0x10 ^ 0x10) << 3  # 0x80 where tiles are numbered from -128 on
    return _tile_color(memory, (tile ^ signed) * 16 + signed * 16 + (row & 7) * 2, 7 - (column & 7))


def _background_color(memory: Any, at: int, lcdc: int, y: int, x: int) -> int:
    """The color of the background or the window at one pixel."""
    window, left = whole(memory[at + KEPT_WINDOW]), whole(memory[at + KEPT_WX]) - 7
    if window != NO_WINDOW and x >= left:
        return _map_color(memory, lcdc, lcdc & 0x40, window, x - left)
    row, column = y + whole(memory[at + KEPT_SCY]) & 255, x + whole(memory[at + KEPT_SCX]) & 255
    return _map_color(memory, lcdc, lcdc & 0x08, row, column)


def _greys(palette: int) -> int:
    """What the four colors of a palette look like, a byte each."""
    greys = 0
    for color in range(4):
        greys |= whole(GREYS[palette >> 2 * color & 3]) << 8 * color
    return greys


def _draw_objects(memory: Any, at: int, lcdc: int, y: int, columns: Any, out: Any) -> None:
    """Write the objects, those that cover others last: the one further left, or else the one listed first."""
    objects = LINE_OBJECTS + OBJECTS_BYTES * y
    count = whole(memory[objects])
    covered = MOST_OBJECTS << 8
    for _ in range(count):
        place = -1
        for k in range(count):
            this = whole(memory[SHOWN_OAM + 4 * whole(memory[objects + 1 + k]) + 1]) * MOST_OBJECTS + k
            if this > place and this < covered:
                place = this
        covered = place
        entry = SHOWN_OAM + 4 * whole(memory[objects + 1 + place % MOST_OBJECTS])
        _draw_object(memory, at, lcdc, y, columns, out, entry)


def _draw_object(memory: Any, at: int, lcdc: int, y: int, columns: Any, out: Any, entry: int) -> None:
    left, flags = whole(memory[entry + 1]) - 8, whole(memory[entry + 3])
    greys = _greys(whole(memory[at + (KEPT_OBP1 if flags & 0x10 else KEPT_OBP0)]))
    behind = _greys(whole(memory[at + KEPT_BGP]))
    tile = _tile_row(memory, entry, flags, lcdc, y)
    count = len(columns)
    k = max(0, _column_of(left, count))
    while k < count and whole(columns[k]) < left + 8:
        x = whole(columns[k])
        color = _tile_color(memory, tile, x - left if flags & 0x20 else 7 - x + left)
        if color:
            under = _background_color(memory, at, lcdc, y, x) if flags & 0x80 and lcdc & 1 else 0
            out[k] = (behind >> 8 * under if under else greys >> 8 * color) & 0xFF
        k += 1


def _tile_row(memory: Any, entry: int, flags: int, lcdc: int, y: int) -> int:
    """Where the row of an object's tile that is on a line is in the video RAM."""
    height = 16 if lcdc & 4 else 8
    row = y + 16 - whole(memory[entry])
    if flags & 0x40:
        row = height - 1 - row
    tile = whole(memory[entry + 2])
    if height == 16:
        tile &= 0xFE
    return tile * 16 + row * 2


@inlined
def _tile_color(memory: Any, at: int, bit: int) -> int:
    low, high = whole(memory[SHOWN_VRAM + at]), whole(memory[SHOWN_VRAM + at + 1])
    return (low >> bit) & 1 | ((high >> bit) & 1) << 1
