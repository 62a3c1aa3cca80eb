"""The LCD's timing: LY, the modes, and the VBlank and STAT interrupts (Pan Docs, "LCD Status Registers").

A frame has 154 lines of 456 dots. A line is in mode 2 for 80 dots, in mode 3 for 172 and a little more, and then in
mode 0; LY is increased four dots before the next line begins. Lines 144 to 153 are in mode 1. If no STAT interrupt is
enabled and the frame is not drawn, nothing happens in it but the beginning and the end of VBlank.
"""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import whole
from rookery.worlds.gameboy.kernel.layout import (
    FRAME_DOTS,
    HEIGHT,
    IF,
    LCDC,
    LINE_DOTS,
    LYC,
    NEVER,
    OAM,
    SCX,
    STAT,
    STAT_BIT,
    VBLANK_BIT,
    VBLANK_DOTS,
    WY,
)
from rookery.worlds.gameboy.kernel.picture import keep_line, keep_picture

SEARCH, DRAW, LY_UP = 80, 252, 452  # dots of a line: mode 3 begins, mode 0 begins at the earliest, LY is increased
LONGEST = DRAW + 8 + 10 * 11  # mode 0 has begun


def line_of(dots: int) -> int:
    """LY, so many dots after the frame began."""
    line = (dots + LINE_DOTS - LY_UP) // LINE_DOTS
    return line if line < HEIGHT else dots // LINE_DOTS


def dots_now(state: Any, now: int) -> int:
    """How far the frame is."""
    dots = now - state.frame_at
    return dots - FRAME_DOTS if dots >= FRAME_DOTS else dots


def read_ly(state: Any, memory: Any, now: int) -> int:
    """The register LY."""
    return line_of(dots_now(state, now)) if whole(memory[LCDC]) & 0x80 else 0


def read_mode(state: Any, memory: Any, now: int) -> int:
    """The mode, as STAT has it."""
    if not whole(memory[LCDC]) & 0x80:
        return 0
    dots = dots_now(state, now)
    if dots >= VBLANK_DOTS:
        return 1
    dot = dots % LINE_DOTS
    if dot < SEARCH:
        return 0 if state.first_frame and dots < SEARCH else 2
    if dot < DRAW:
        return 3
    if dot >= LONGEST:
        return 0
    return 3 if dot < _draw_end(state, memory, dots // LINE_DOTS) else 0


def read_stat(state: Any, memory: Any, now: int) -> int:
    """The register STAT."""
    ly, mode = read_ly(state, memory, now), read_mode(state, memory, now)
    return 0x80 | (whole(memory[STAT]) & 0x78) | (4 if ly == whole(memory[LYC]) else 0) | mode


def next_change(state: Any, memory: Any, now: int, in_stat: bool) -> int:
    """A time up to which LY reads as it does now, and if `in_stat`, STAT too: at most the next change."""
    if not whole(memory[LCDC]) & 0x80:
        return NEVER
    dot = dots_now(state, now) % LINE_DOTS
    if in_stat and dot < LONGEST:
        if dot >= DRAW:
            return now  # somewhere here mode 0 begins
        return now - dot + (SEARCH if dot < SEARCH else DRAW)
    return now - dot + (LY_UP if dot < LY_UP else LINE_DOTS)


def video_is_open(state: Any, memory: Any) -> int:
    """A time up to which a program can use the video RAM: in VBlank until its end, for ever if the LCD is off."""
    if not whole(memory[LCDC]) & 0x80:
        return NEVER
    dots = state.t - state.frame_at
    return state.frame_at + FRAME_DOTS if dots >= VBLANK_DOTS else 0


def _draw_end(state: Any, memory: Any, line: int) -> int:
    """The dot at which mode 0 begins: later with scrolling and with objects."""
    end = DRAW + _objects_penalty(memory, line)
    return end if state.first_frame else end + ((whole(memory[SCX]) & 7) + 3) // 4 * 4


def _objects_penalty(memory: Any, line: int) -> int:
    lcdc = whole(memory[LCDC])
    if not lcdc & 2:
        return 0
    height = 16 if lcdc & 4 else 8
    scx = whole(memory[SCX])
    found, places, penalty = 0, 0, 0
    for k in range(40):
        y = whole(memory[OAM + 4 * k]) - 16
        if found < 10 and y <= line and line < y + height:
            x = whole(memory[OAM + 4 * k + 1])
            found += 1
            if x < 168:
                penalty += 6
                if not _same_place(memory, k, x, line, height):
                    places += 1
                    penalty += max(0, 5 - ((x + scx - 8) & 7))
    if found == 0:
        return 0
    return -4 if places == 0 else max(0, penalty - 7)


def _same_place(memory: Any, k: int, x: int, line: int, height: int) -> bool:
    """Whether an earlier object of the line begins at the same x."""
    for other in range(k):
        y = whole(memory[OAM + 4 * other]) - 16
        if y <= line and line < y + height and whole(memory[OAM + 4 * other + 1]) == x:
            return True
    return False


def update_stat_line(state: Any, memory: Any, now: int) -> None:
    """Request the STAT interrupt where its line rises. The LCD must be on."""
    enabled = whole(memory[STAT])
    if not enabled & 0x78:
        state.stat_line = 0
        return
    dots = dots_now(state, now)
    mode = read_mode(state, memory, now)
    high = False
    if enabled & 0x40 and line_of(dots) == whole(memory[LYC]):
        high = True
    if enabled & 0x08 and mode == 0 and not (state.first_frame and dots < SEARCH):
        high = True
    if enabled & 0x10 and mode == 1:
        high = True
    if enabled & 0x20 and (mode == 2 or dots == VBLANK_DOTS):
        high = True
    if high and not state.stat_line:
        memory[IF] = memory[IF] | STAT_BIT
    state.stat_line = 1 if high else 0


def sync_lcd(state: Any, memory: Any, now: int) -> None:
    """Let everything happen that is due until now."""
    while state.lcd_due <= now:
        when = state.lcd_due
        if not whole(memory[LCDC]) & 0x80:
            state.frame_at = when
            _end_frame(state)
        elif when - state.frame_at >= FRAME_DOTS:
            state.frame_at += FRAME_DOTS
            state.first_frame = 0
            _begin_picture(state)
            _open_window(state, memory, 0)
            update_stat_line(state, memory, when)
            _end_frame(state)
        else:
            _line_event(state, memory, when)
        schedule_lcd(state, memory, when)


def _line_event(state: Any, memory: Any, when: int) -> None:
    dots = when - state.frame_at
    line, dot = dots // LINE_DOTS, dots % LINE_DOTS
    if dots == VBLANK_DOTS:
        memory[IF] = memory[IF] | VBLANK_BIT
        if state.draw:
            keep_picture(state, memory)
    elif line < HEIGHT and dot == 0:
        _open_window(state, memory, line)
    elif line < HEIGHT and dot < LY_UP and state.draw:
        _open_window(state, memory, line)
        keep_line(state, memory, line)
    update_stat_line(state, memory, when)


def _open_window(state: Any, memory: Any, line: int) -> None:
    if whole(memory[WY]) == line:
        state.window_open = 1


def _begin_picture(state: Any) -> None:
    state.window_line = 0
    state.window_open = 0


def _end_frame(state: Any) -> None:
    state.done = 1
    state.frames += 1


def schedule_lcd(state: Any, memory: Any, now: int) -> None:
    """Find the next event after now."""
    if not whole(memory[LCDC]) & 0x80:
        state.lcd_due = state.frame_at + FRAME_DOTS
        return
    dots = now - state.frame_at
    if not (whole(memory[STAT]) & 0x78 or state.draw):
        state.lcd_due = state.frame_at + (VBLANK_DOTS if dots < VBLANK_DOTS else FRAME_DOTS)
        return
    line, dot = dots // LINE_DOTS, dots % LINE_DOTS
    next_dot = LINE_DOTS
    if line < HEIGHT:
        end = _draw_end(state, memory, line) if whole(memory[STAT]) & 8 else DRAW
        if dot < end:
            next_dot = end
        elif dot < LY_UP and line < HEIGHT - 1:
            next_dot = LY_UP
    state.lcd_due = state.frame_at + line * LINE_DOTS + next_dot


def write_lcdc(state: Any, memory: Any, value: int) -> None:
    """Switching the LCD on or off ends the frame: the next one begins now."""
    was_on, now = whole(memory[LCDC]) & 0x80, state.t
    memory[LCDC] = value
    if was_on and not value & 0x80:
        state.frame_at = now
        state.shown, state.stat_line = 0, 0
        _end_frame(state)
    elif value & 0x80 and not was_on:
        state.frame_at = now
        state.first_frame = 1
        _begin_picture(state)
        _open_window(state, memory, 0)
        update_stat_line(state, memory, now)
        _end_frame(state)
