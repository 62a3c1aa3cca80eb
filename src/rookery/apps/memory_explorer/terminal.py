"""The explorer in a terminal: the screen in half blocks, with the panel beside it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator

from rookery.apps.memory_explorer.commands import Commands, Quit
from rookery.apps.memory_explorer.controls import KEYS, TYPING, ExplorerControls, StyledLine
from rookery.apps.memory_explorer.half_blocks import choose_shrink, half_blocks
from rookery.apps.memory_explorer.raw_terminal import TerminalScreen, own_terminal

FRAME = 1 / 60
EVERY = 3  # frames of which one is drawn
LATE = 0.25  # seconds; a longer delay is not caught up
BELOW = 4  # rows under the screen
PANEL = 36  # columns beside it
TONES = {"head": "\x1b[1m", "plain": "", "dim": "\x1b[2m", "bright": "\x1b[7m"}


def explore(commands: Commands) -> None:
    """Run the explorer until the user quits."""
    controls = ExplorerControls(commands)
    with own_terminal() as terminal:
        try:
            _loop(controls, terminal)
        except Quit:
            pass


def _loop(controls: ExplorerControls, terminal: TerminalScreen) -> None:
    due, frame = time.monotonic(), 0
    while True:
        due = max(due + FRAME, time.monotonic() - LATE)
        while (left := due - time.monotonic()) > 0:
            pressed = terminal.keys(left)
            if pressed is None:
                return
            for key, shift in pressed:
                controls.hold(key) if shift else controls.tap(key)
        controls.advance()
        frame += 1
        if frame % EVERY == 0:
            terminal.show(rows(controls, *terminal.size))


def rows(controls: ExplorerControls, columns: int, height: int) -> list[str]:
    """The contents of a terminal of this size."""
    if controls.page:
        page = [
            line for text in controls.page for line in textwrap.wrap(text, columns, subsequent_indent=" " * 8) or [""]
        ]
        return [*_filled([line[:columns] for line in page], height - 1), f"{TONES['dim']}press any key to return"]
    shrink = choose_shrink(columns - PANEL, height - BELOW)
    screen = half_blocks(controls.session.screen, shrink)
    beside = controls.panel(max(len(screen), height - BELOW))
    width = columns - 160 // shrink - 2
    blank = " " * (160 // shrink)
    count = max(len(screen), len(beside))
    made = [
        (screen[k] if k < len(screen) else blank) + "  " + (_toned(beside[k], width) if k < len(beside) else "")
        for k in range(count)
    ]
    return _filled(made, height - BELOW) + _filled(list(_below(controls, columns)), BELOW)


def _below(controls: ExplorerControls, columns: int) -> Iterator[str]:
    """The message, and the list of keys or the command line."""
    yield controls.message[:columns]
    if controls.prompt is not None:
        yield f":{controls.prompt}"[-columns + 1 :] + "\x1b[7m \x1b[0m"
        yield TONES["dim"] + TYPING[:columns]
    else:
        yield from (TONES["dim"] + keys[:columns] for keys in KEYS)


def _toned(line: StyledLine, width: int) -> str:
    return f"{TONES[line.tone]}{line.text[: max(0, width)]}\x1b[0m"


def _filled(lines: list[str], height: int) -> list[str]:
    height = max(0, height)
    return lines[:height] + [""] * (height - len(lines))
