"""What the terminal shows while something takes long."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable

import pytest

from rookery import console
from rookery.console import compiler_watched, compiling, tell_compiler


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_compiling_tells_what_and_how_long(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no terminal: a line at the beginning, one now and then, and one at the end."""
    monkeypatch.setattr(console, "LONG_SECONDS", 0.01)
    with caplog.at_level("INFO", "rookery"), compiling("Maze"):
        until(lambda: "so far" in caplog.text)
    first, *between, last = caplog.messages
    assert "compiling Maze" in first and "once on this machine" in first and "from disk" in first
    assert between and all("compiling Maze" in line and "s so far" in line for line in between)
    assert "compiled Maze in" in last


def test_a_terminal_shows_the_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(console, "TICK_SECONDS", 0.01)
    with compiling("Maze"):
        until(lambda: "compiling Maze ... 0 s" in screen.getvalue())
    assert screen.getvalue().endswith(console.CLEAR_LINE)


def test_who_watches_is_told_instead(caplog: pytest.LogCaptureFixture) -> None:
    """By the thread that compiles, so that two runs in two threads tell of their own."""
    told: list[tuple[str, bool]] = []
    caplog.set_level("INFO", "rookery")
    with compiler_watched(lambda what, seconds: told.append((what, seconds is None))):
        with compiling("Maze"):
            assert told == [("Maze", True)]
        other = threading.Thread(target=tell_compiler, args=("Snake",))
        other.start()
        other.join()
    tell_compiler("nobody watches")
    assert told == [("Maze", True), ("Maze", False)] and not caplog.messages
