"""A terminal in raw mode: single key presses, the alternate screen, and the old settings restored at the end."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from rookery.errors import OptionError

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
