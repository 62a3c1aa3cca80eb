"""The live panel. It draws inside `write`, without a thread, so there are no races with the run or its workers."""

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
from rookery.monitor.events import Event, printable_event
from rookery.monitor.panel_layout import RunPanel
from rookery.monitor.run_state import RunState

SHORTEST_SECONDS = 0.25  # between two redraws for progress
SHARE = 0.01  # of one core that drawing may take
BURST_SECONDS = 0.1  # of drawing time that may be used at once


class LivePanel:
    """Shows a run as a panel that is redrawn in place; the last one stays on the screen."""

    def __init__(
        self,
        total_steps: int | None = None,
        stream: TextIO | None = None,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Draw on `stream` (standard error), or on a rich `console` of the caller."""
        self.state = RunState(total_steps)
        self._console = console or Console(file=stream or sys.stderr, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None
        self._budget = RedrawBudget(clock)
        self._size = self._console.size
        self._streams = (sys.stdout, sys.stderr)
        self._redirected: list[tuple[logging.StreamHandler[Any], Any]] = []

    def write(self, event: Event) -> None:
        event = printable_event(event)
        self.state.add(event)
        if event.kind == "end":
            self.close()
            run_summary.print_summary(event.values)
        elif event.kind == "start":
            self._open()
        elif self._live is not None and self._is_due(event):
            self._draw()

    def close(self) -> None:
        """Draw the last state, and restore the cursor, the streams and the log handlers."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.refresh()
        finally:
            live.stop()
            self._release()

    def leave_to_parent(self) -> None:
        """In a forked child: the output of a worker must not go through a panel."""
        if self._live is not None:
            self._live = None
            sys.stdout, sys.stderr = self._streams
            self._release()

    def _release(self) -> None:
        _open_panels.discard(self)
        atexit.unregister(self.close)
        for handler, stream in self._redirected:
            handler.setStream(stream)
        self._redirected.clear()

    def _is_due(self, event: Event) -> bool:
        """A long operation is always shown: the next event may come much later."""
        return event.kind == "doing" or self._budget.allows(urgent=event.kind != "progress")

    def _open(self) -> None:
        self.close()
        self._streams = (sys.stdout, sys.stderr)
        self._live = Live(
            RunPanel(self.state),
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # output to a file stays out of the panel
            redirect_stderr=sys.stderr.isatty(),
        )
        atexit.register(self.close)  # restores the cursor if the program ends with an exception
        _open_panels.add(self)
        self._live.start()
        self._redirect_log()
        self._draw()

    def _redirect_log(self) -> None:
        """Let log handlers that hold the original streams write above the panel, as `print` does."""
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
            if self._console.size != self._size:  # the old rows are wrapped, their positions unknown
                self._size = self._console.size
                self._console.clear()
            self._live.refresh()


_open_panels: set[LivePanel] = set()


def _leave_to_parent() -> None:
    for panel in list(_open_panels):
        panel.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class RedrawBudget:
    """Limits redraws to `SHARE` of one core on average, and allows a few at once."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._credit, self._counted = BURST_SECONDS, clock()
        self._drawn = -SHORTEST_SECONDS
        self._began = 0.0

    def allows(self, urgent: bool = False) -> bool:
        """Whether to draw now. An urgent redraw ignores the minimum interval, but not the budget."""
        now = self._clock()
        self._credit = min(BURST_SECONDS, self._credit + SHARE * (now - self._counted))
        self._counted = now
        return self._credit > 0 and (urgent or now - self._drawn >= SHORTEST_SECONDS)

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._drawn = self._clock()
        self._credit -= self._drawn - self._began
