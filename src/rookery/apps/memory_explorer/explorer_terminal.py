"""The explorer in a terminal: the screen in half blocks, with the panel beside it.

The terminal is in raw mode, for single key presses, on its other screen; the old settings are restored at the end. Each
character shows two pixels, one above the other, in greys.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from types import FrameType

import numpy as np

from rookery.apps.memory_explorer.controls import ExplorerControls, StyledLine
from rookery.apps.memory_explorer.explorer_commands import Commands, Quit
from rookery.errors import OptionError

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
        page = [line[:columns] for line in controls.wrapped_page(columns)]
        return [*_filled(page, height - 1), TONES["dim"] + controls.below()[0].text]
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
    for line in controls.below():
        if line.tone == "prompt":  # its end, and a cursor
            yield line.text[-columns + 1 :] + "\x1b[7m \x1b[0m"
        else:
            yield TONES[line.tone] + line.text[:columns]


def _toned(line: StyledLine, width: int) -> str:
    return f"{TONES[line.tone]}{line.text[: max(0, width)]}\x1b[0m"


def _filled(lines: list[str], height: int) -> list[str]:
    height = max(0, height)
    return lines[:height] + [""] * (height - len(lines))


try:
    import termios
    import tty
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[0m\x1b[?25h\x1b[?1049l"  # the other screen, no cursor; and back
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
NAMES = {"\r": "enter", "\n": "enter", " ": "space", "\x7f": "backspace", "\b": "backspace", "\t": "tab"}
SEQUENCE = re.compile(r"\x1b(?:\[|O)(?P<middle>[0-9;]*)(?P<end>[A-Za-z~])|\x1b|.", re.DOTALL)
SHIFTED = ";2"
ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def keys_in(text: str) -> Iterator[tuple[str, bool]]:
    """The keys of a terminal's input, and whether Shift was held with an arrow.

    >>> list(keys_in("x\\x1b[A\\x1b[1;2C\\r"))
    [('x', False), ('up', False), ('right', True), ('enter', False)]
    """
    for found in SEQUENCE.finditer(text):
        if found["end"] in ARROWS:
            yield ARROWS[found["end"]], found["middle"].endswith(SHIFTED)
        elif found[0] == "\x1b":
            yield "escape", False
        elif found["end"] is None and (found[0] in NAMES or found[0].isprintable()):
            yield NAMES.get(found[0], found[0]), False


class TerminalScreen:
    """The contents of the terminal. Only changed rows are sent."""

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self._rows: list[str] = []
        self._size = os.terminal_size((0, 0))

    @property
    def size(self) -> os.terminal_size:
        return os.get_terminal_size(self._sink)

    def keys(self, timeout: float) -> list[tuple[str, bool]] | None:
        """The keys pressed within the timeout; None if the terminal was closed."""
        ready, _, _ = select.select([self._source], [], [], max(0.0, timeout))
        if not ready:
            return []
        try:
            data = os.read(self._source, 1024)
        except OSError:  # it was closed
            return None
        return list(keys_in(data.decode("utf-8", "replace"))) if data else None

    def show(self, rows: Sequence[str]) -> None:
        """Show these rows, from the top of the screen."""
        size = self.size
        if size != self._size:
            self._size, self._rows = size, []
            self._send("\x1b[0m\x1b[2J")
        old = self._rows + [""] * (len(rows) - len(self._rows))
        changed = [
            f"\x1b[{k + 1};1H{row}\x1b[0m\x1b[K" for k, row in enumerate(rows) if row != old[k] or not self._rows
        ]
        self._rows = list(rows)
        self._send("".join(changed))

    def _send(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._sink, data) :]


@contextmanager
def own_terminal() -> Iterator[TerminalScreen]:
    """Use the terminal in raw mode, and restore it: also after Ctrl-C, an error or a termination signal."""
    if termios is None:
        raise OptionError("the explorer in a terminal needs Linux or macOS: use its window, or a script")
    source, sink = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(source)
    handlers = {ending: signal.signal(ending, _leave) for ending in ENDINGS}
    try:
        tty.setcbreak(source)
        _without_suspending(source)
        os.write(sink, ENTER.encode())
        yield TerminalScreen(source, sink)
    finally:
        for ending, handler in handlers.items():
            signal.signal(ending, handler)
        try:
            termios.tcsetattr(source, termios.TCSAFLUSH, before)
            os.write(sink, LEAVE.encode())
        except (OSError, termios.error):  # the terminal is closed: there is nothing to restore
            pass


def _without_suspending(source: int) -> None:
    """Disable Ctrl-Z: it would leave the shell with a terminal in raw mode."""
    settings = termios.tcgetattr(source)
    settings[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(source, termios.TCSANOW, settings)


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


SHRINKS = (1, 2, 4, 8)
BLACKEST, GREYS = 232, 24  # of the 256 colours that every terminal has
UPPER, PLAIN = "▀", "\x1b[0m"


def choose_shrink(columns: int, rows: int) -> int:
    """The factor by which a screen of 160 x 144 pixels must be shrunk to fit a terminal of this size.

    >>> choose_shrink(200, 80), choose_shrink(120, 40), choose_shrink(80, 24)
    (1, 2, 4)
    """
    return next((k for k in SHRINKS if 160 // k <= columns and 72 // k <= rows), SHRINKS[-1])


def half_blocks(picture: np.ndarray, shrink: int) -> list[str]:
    """Rows of characters with their colours."""
    grey = picture.mean(axis=2)
    height, width = (side // shrink for side in grey.shape)
    small = grey[: height * shrink, : width * shrink].reshape(height, shrink, width, shrink).mean(axis=(1, 3))
    levels = BLACKEST + (small / 256 * GREYS).astype(int)
    return [_block_row(upper, lower) for upper, lower in zip(levels[::2], levels[1::2], strict=True)]


def _block_row(upper: np.ndarray, lower: np.ndarray) -> str:
    """Colours are written once for neighbours that share them."""
    runs = groupby(zip(upper.tolist(), lower.tolist(), strict=True))
    return "".join(f"\x1b[38;5;{a};48;5;{b}m{UPPER * len(list(run))}" for (a, b), run in runs) + PLAIN
