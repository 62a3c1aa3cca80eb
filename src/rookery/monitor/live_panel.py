"""The live panel. Everything happens inside `write`: no thread draws, so nothing races with the run or its workers."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live

from rookery.monitor import run_summary
from rookery.monitor.events import Event, shown
from rookery.monitor.panel_layout import RunPanel
from rookery.monitor.run_state import RunState

SHORTEST_SECONDS = 0.25  # between two drawings of mere progress
SHARE = 0.01  # of one core that drawing may take
BURST_SECONDS = 0.1  # of drawing that may be used up at once


class Terminal:
    """Shows a run as one panel that is redrawn in place; its last state stays on the screen."""

    def __init__(
        self,
        total_steps: int | None = None,
        stream: TextIO | None = None,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Draw on `stream` (standard error), or on a rich `console` of the caller's."""
        self.picture = RunState(total_steps)
        self._console = console or Console(file=stream or sys.stderr, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._budget = Budget(clock)
        self._size = self._console.size
        self._streams = (sys.stdout, sys.stderr)
        self._redirected: list[tuple[logging.StreamHandler[Any], Any]] = []

    def write(self, event: Event) -> None:
        event = shown(event)
        self.picture.add(event)
        if event.kind == "end":
            self.close()
            run_summary.show(event.values)
        elif event.kind == "start":
            self._open()
        elif self._live is not None and self._is_due(event):
            self._draw()

    def close(self) -> None:
        """Draw the last state, and give the screen back as it was: cursor, streams and log lines."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.refresh()
        finally:
            live.stop()
            self._let_go()

    def leave_to_parent(self) -> None:
        """In a forked child: what a worker prints must go out as it is, not through a panel of its own."""
        if self._live is not None:
            self._live = None
            sys.stdout, sys.stderr = self._streams
            self._let_go()

    def _let_go(self) -> None:
        _open_terminals.discard(self)
        atexit.unregister(self.close)
        for handler, stream in self._redirected:
            handler.setStream(stream)
        self._redirected.clear()

    def _is_due(self, event: Event) -> bool:
        """What is under way is always shown: it may be a while before the next event."""
        return event.kind == "doing" or self._budget.allows(urgent=event.kind != "progress")

    def _open(self) -> None:
        self.close()
        self._streams = (sys.stdout, sys.stderr)
        self._live = Live(
            RunPanel(self.picture),
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # what goes to a file stays out of the panel
            redirect_stderr=sys.stderr.isatty(),
        )
        atexit.register(self.close)  # a program that dies of an exception gets its cursor back
        _open_terminals.add(self)
        self._live.start()
        self._redirect_log()
        self._draw()

    def _redirect_log(self) -> None:
        """Let log handlers that hold the true streams write above the panel, as `print` does, not into it."""
        handlers = logging.getLogger("rookery").handlers + logging.getLogger().handlers
        for handler in (each for each in handlers if isinstance(each, logging.StreamHandler)):
            for before, now in zip(self._streams, (sys.stdout, sys.stderr), strict=True):
                if handler.stream is before and now is not before:
                    self._redirected.append((handler, before))
                    handler.setStream(now)
                    break

    def _draw(self) -> None:
        assert self._live is not None
        with self._budget:
            if self._console.size != self._size:  # old rows have been wrapped anew, nobody knows where they are
                self._size = self._console.size
                self._console.clear()
            self._live.refresh()


_open_terminals: set[Terminal] = set()


def _leave_to_parent() -> None:
    for terminal in list(_open_terminals):
        terminal.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class Budget:
    """Says when to draw, and measures what it costs: at most `SHARE` of a core, saved up for a few drawings at once."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._credit, self._counted = BURST_SECONDS, clock()
        self._drawn = -SHORTEST_SECONDS
        self._began = 0.0

    def allows(self, urgent: bool = False) -> bool:
        """Whether to draw now; what is urgent need not keep the distance, but must be paid for too."""
        now = self._clock()
        self._credit = min(BURST_SECONDS, self._credit + SHARE * (now - self._counted))
        self._counted = now
        return self._credit > 0 and (urgent or now - self._drawn >= SHORTEST_SECONDS)

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._drawn = self._clock()
        self._credit -= self._drawn - self._began
