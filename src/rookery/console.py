"""Messages on the terminal, through `logging` if the program has configured it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CLEAR_LINE = "\r\x1b[K"
_log = logging.getLogger("rookery")
_silenced: list[bool] = []  # nothing is printed while it holds True
_shown: list[str] = []  # what `meanwhile` shows on the last line of the terminal


def printable(text: object) -> str:
    """The text with escape codes for control characters, which could move the cursor or hide text.

    >>> printable(chr(27) + "[2J")
    '\\\\x1b[2J'
    """
    shown = str(text)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def printable_lines(text: object) -> str:
    """The same for a message of several lines."""
    return "\n".join(map(printable, str(text).split("\n")))


def say(line: str) -> None:
    """Report a choice or a fallback: to the handlers of `logging` if the program has any, else to standard error.
    `logging.getLogger("rookery").setLevel("WARNING")` silences it. The configuration of `logging` is never changed."""
    if any(_silenced):
        return
    _clear_line()
    text = printable_lines(line)
    if _log.hasHandlers():
        _log.info(text)
    elif sys.stderr is not None and (_log.level == logging.NOTSET or _log.isEnabledFor(logging.INFO)):
        with suppress(OSError, ValueError):  # standard error is closed
            sys.stderr.write(f"rookery: {text}\n")
            sys.stderr.flush()


@contextmanager
def silent(wanted: bool = True) -> Iterator[None]:
    """`say` and `meanwhile` print nothing within, if that is wanted."""
    _silenced.append(wanted)
    try:
        yield
    finally:
        _silenced.pop()


def confirmed(question: str) -> bool | None:
    """The answer of a person at the terminal to a yes-or-no question; None without a terminal."""
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        return None
    _clear_line()
    sys.stderr.write(f"rookery: {printable(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def meanwhile(what: str) -> Iterator[None]:
    """Show on standard error what is being done, if that is a terminal, until it is done or `say` prints a line."""
    if any(_silenced) or not sys.stderr.isatty():
        yield
        return
    _clear_line()
    _shown.append(what)
    sys.stderr.write(f"{printable(what)} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        _clear_line()


def _clear_line() -> None:
    if _shown:
        _shown.clear()
        sys.stderr.write(CLEAR_LINE)
        sys.stderr.flush()


def size_text(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
