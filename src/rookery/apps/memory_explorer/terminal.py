"""Exploring in a terminal: the screen in half blocks, values beside it, keys as they come."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator

from rookery.apps.memory_explorer.commands import Commands, Quit
from rookery.apps.memory_explorer.desk import KEYS, TYPING, Desk, Line
from rookery.apps.memory_explorer.half_blocks import choose_shrink, half_blocks
from rookery.apps.memory_explorer.raw import Tty, own_terminal

FRAME = 1 / 60
EVERY = 3  # frames of which one is drawn
LATE = 0.25  # seconds behind which time is not made up for
BELOW = 4  # rows under the screen
PANEL = 36  # columns beside it
TONES = {"head": "\x1b[1m", "plain": "", "dim": "\x1b[2m", "bright": "\x1b[7m"}


def explore(commands: Commands) -> None:
    """Explore until someone leaves."""
    desk = Desk(commands)
    with own_terminal() as terminal:
        try:
            _loop(desk, terminal)
        except Quit:
            pass


def _loop(desk: Desk, terminal: Tty) -> None:
    due, frame = time.monotonic(), 0
    while True:
        due = max(due + FRAME, time.monotonic() - LATE)
        while (left := due - time.monotonic()) > 0:
            pressed = terminal.keys(left)
            if pressed is None:
                return
            for key, shift in pressed:
                desk.hold(key) if shift else desk.tap(key)
        desk.advance()
        frame += 1
        if frame % EVERY == 0:
            terminal.show(rows(desk, *terminal.size))


def rows(desk: Desk, columns: int, height: int) -> list[str]:
    """All that is to be seen on a terminal of this size."""
    if desk.page:
        page = [line for text in desk.page for line in textwrap.wrap(text, columns, subsequent_indent=" " * 8) or [""]]
        return [*_filled([line[:columns] for line in page], height - 1), f"{TONES['dim']}any key goes back"]
    shrink = choose_shrink(columns - PANEL, height - BELOW)
    screen = half_blocks(desk.session.screen, shrink)
    beside = desk.panel(max(len(screen), height - BELOW))
    width = columns - 160 // shrink - 2
    blank = " " * (160 // shrink)
    count = max(len(screen), len(beside))
    made = [
        (screen[k] if k < len(screen) else blank) + "  " + (_toned(beside[k], width) if k < len(beside) else "")
        for k in range(count)
    ]
    return _filled(made, height - BELOW) + _filled(list(_below(desk, columns)), BELOW)


def _below(desk: Desk, columns: int) -> Iterator[str]:
    """The message, and the keys or the line that is typed."""
    yield desk.message[:columns]
    if desk.prompt is not None:
        yield f":{desk.prompt}"[-columns + 1 :] + "\x1b[7m \x1b[0m"
        yield TONES["dim"] + TYPING[:columns]
    else:
        yield from (TONES["dim"] + keys[:columns] for keys in KEYS)


def _toned(line: Line, width: int) -> str:
    return f"{TONES[line.tone]}{line.text[: max(0, width)]}\x1b[0m"


def _filled(lines: list[str], height: int) -> list[str]:
    height = max(0, height)
    return lines[:height] + [""] * (height - len(lines))
