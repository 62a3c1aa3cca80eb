"""Messages on the terminal, through `logging` if the program has configured it."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache

CLEAR_LINE = "\r\x1b[K"
TICK_SECONDS = 1.0  # between two updates of what `waiting` shows on a terminal
LONG_SECONDS = 5.0  # until `waiting` prints a line elsewhere; the next ones come after two, four, eight ... times that
_log = logging.getLogger("rookery")
_silenced: list[bool] = []  # nothing is printed while it holds True
_shown: list[str] = []  # what `meanwhile` shows on the last line of the terminal
_writing = threading.RLock()  # held while that line is written or removed


class _Watchers(threading.local):
    """See `compiler_watched`: each thread has its own, as it compiles for itself."""

    def __init__(self) -> None:
        self.all: list[Callable[[str, float | None], None]] = []


_watchers = _Watchers()


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


def join_or(texts: Sequence[str]) -> str:
    """Names as a sentence lists them.

    >>> join_or(["a", "b", "c"])
    'a, b or c'
    """
    return " or ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def say(line: str) -> None:
    """Report a choice or a fallback: to the handlers of `logging` if the program has any, else to standard error.
    `logging.getLogger("rookery").setLevel("WARNING")` silences it. The configuration of `logging` is never changed."""
    if any(_silenced):
        return
    text = printable_lines(line)
    with _writing:
        _clear_line()
        if _log.hasHandlers():
            _log.info(text)
        elif sys.stderr is not None and (_log.level == logging.NOTSET or _log.isEnabledFor(logging.INFO)):
            with suppress(OSError, ValueError):  # standard error is closed
                sys.stderr.write(f"rookery: {text}\n")
                sys.stderr.flush()


@contextmanager
def silent(wanted: bool = True) -> Iterator[None]:
    """`say`, `meanwhile` and `waiting` print nothing within, if that is wanted."""
    _silenced.append(wanted)
    try:
        yield
    finally:
        _silenced.pop()


def is_silent() -> bool:
    """Whether `say` prints nothing at present."""
    return any(_silenced)


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
    _show(what, "...")
    try:
        yield
    finally:
        _clear_line()


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """The same for what may take minutes: a terminal also shows the seconds, and elsewhere a line is printed now and
    then. A thread does this, so that it is not for code that forks."""
    if any(_silenced):
        yield
        return
    over = threading.Event()
    tell = _count_seconds if sys.stderr.isatty() else _say_seconds
    thread = threading.Thread(target=tell, args=(what, over), name="rookery waiting", daemon=True)
    with meanwhile(what):
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def compiling(what: str) -> Iterator[None]:
    """Say what is being compiled, for how long, and that this happens once; within `compiler_watched`, tell that."""
    if _watchers.all:
        began = time.monotonic()
        tell_compiler(what)
        yield
        tell_compiler(what, time.monotonic() - began)
        return
    with _said_compiling(what):
        yield


@contextmanager
def compiling_if_needed(what: str) -> Iterator[None]:
    """The same for code in several parts, each of which tells if it is not on disk: said once for all of them."""
    if _watchers.all:
        yield
        return
    with ExitStack() as stack:
        said = cache(lambda: stack.enter_context(_said_compiling(what)))
        with compiler_watched(lambda part, seconds: said()):
            yield


@contextmanager
def _said_compiling(what: str) -> Iterator[None]:
    began = time.monotonic()
    say(f"compiling {what} (once on this machine; later starts read the compiled code from disk)")
    with waiting(f"compiling {what}"):
        yield
    say(f"compiled {what} in {time.monotonic() - began:.0f} s")


@contextmanager
def compiler_watched(tell: Callable[[str, float | None], None]) -> Iterator[None]:
    """Within, `tell` is called with the name of what is being compiled; once that is done, with its seconds too."""
    _watchers.all.append(tell)
    try:
        yield
    finally:
        _watchers.all.remove(tell)


def tell_compiler(what: str, seconds: float | None = None) -> None:
    """Tell those who watch."""
    for tell in _watchers.all[-1:]:
        tell(what, seconds)


def _count_seconds(what: str, over: threading.Event) -> None:
    began = time.monotonic()
    while not over.wait(TICK_SECONDS):
        with _writing, suppress(OSError, ValueError):
            _show(what, f"... {time.monotonic() - began:.0f} s")


def _say_seconds(what: str, over: threading.Event) -> None:
    began, pause = time.monotonic(), LONG_SECONDS
    while not over.wait(pause):
        say(f"{what} ... {time.monotonic() - began:.0f} s so far")
        pause *= 2


def _show(what: str, more: str) -> None:
    with _writing:
        _clear_line()
        _shown.append(what)
        sys.stderr.write(f"{printable(what)} {more}")
        sys.stderr.flush()


def _clear_line() -> None:
    with _writing:
        if _shown:
            _shown.clear()
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()


def _forget_in_child() -> None:
    """In a forked child: the line is the parent's, and the lock may be held by a thread that is not there."""
    global _writing
    _writing = threading.RLock()
    _shown.clear()


if hasattr(os, "register_at_fork"):  # only where processes can fork
    os.register_at_fork(after_in_child=_forget_in_child)


def size_text(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
