"""One line to the person at the terminal, through `logging` so that a program can direct or silence it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TAKE_BACK = "\r\x1b[K"
_log = logging.getLogger("rookery")
_shown: list[str] = []  # what `meanwhile` has left on the terminal's last line


def printable(text: object) -> str:
    """A name as it can be shown: what would move a cursor, begin a line or hide is written as its code.

    >>> printable(chr(27) + "[2J")
    '\\\\x1b[2J'
    """
    shown = str(text)
    return shown if shown.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)


def printable_lines(text: object) -> str:
    """The same for a message, whose lines stay lines."""
    return "\n".join(map(printable, str(text).split("\n")))


def say(line: str) -> None:
    """Tell of a choice or a fallback. `logging.getLogger("rookery").setLevel("WARNING")` silences it."""
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("rookery: %(message)s"))
        _log.addHandler(handler)
    if _log.level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    _take_back()
    _log.info(printable_lines(line))


def confirmed(question: str) -> bool | None:
    """What somebody at the terminal says to a question; None where nobody can be asked."""
    if not sys.stdin.isatty() or not sys.stderr.isatty():
        return None
    _take_back()
    sys.stderr.write(f"rookery: {printable(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def meanwhile(what: str) -> Iterator[None]:
    """Show on standard error what is being done, if that is a terminal, until it is done or something is said."""
    if not sys.stderr.isatty():
        yield
        return
    _take_back()
    _shown.append(what)
    sys.stderr.write(f"{printable(what)} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        _take_back()


def _take_back() -> None:
    if _shown:
        _shown.clear()
        sys.stderr.write(TAKE_BACK)
        sys.stderr.flush()


def size_text(count: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
