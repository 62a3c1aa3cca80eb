"""Shows a study again and again while it continues. Nothing is written to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rookery.console import printable_lines
from rookery.errors import StorageLost, StudyError
from rookery.studies.report.report import Reporter, StudyReport
from rookery.studies.report.report_text import report_text, status, status_line
from rookery.studies.report.study_figures import search_options
from rookery.studies.storage.study_view import StudyReader

IDLE_SECONDS = 60.0  # without anything in training, until the search is taken to have stopped
PATIENCE_SECONDS = 60.0  # for a study that is being created, or a database that does not answer


class StudyWatch:
    """Watches one study until it ends.

    Args:
        open_reader: Finds the study. It raises StudyError while there is none.
        every: Seconds between two looks.
        console: Where to draw; a terminal gets the report redrawn in place, anything else lines.
    """

    def __init__(
        self, open_reader: Callable[[], StudyReader], reporter: Reporter, *, every: float = 2.0, top: int = 5,
        console: Console | None = None, sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._open, self._reporter = open_reader, reporter
        self._every, self._top, self._sleep, self._clock = every, top, sleep, clock
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._reader: StudyReader | None = None
        self._report: StudyReport | None = None
        self._active = self._answered = clock()
        self._trouble = ""
        self._line = ""

    def run(self) -> StudyReport | None:
        """Watch until the study ends, or until Ctrl-C; returns the last report."""
        live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        with suppress(KeyboardInterrupt):
            with live if self._console.is_terminal else nullcontext():
                while not (end := self._look()):
                    self._draw(live)
                    self._sleep(self._every)
                self._draw(live)
            print(end, flush=True)
        return self._report

    def _look(self) -> str:
        """Read the study; returns why there is nothing more to see, or ""."""
        now = self._clock()
        try:
            if self._reader is None:
                self._reader = self._open()
            self._report = self._reporter.report(self._reader.read())
        except StudyError as error:
            return self._missed(error, now)
        self._answered, self._trouble = now, ""
        return self._end(self._report, now)

    def _missed(self, error: StudyError, now: float) -> str:
        """The storage is locked, being created, or gone."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._trouble = printable_lines(error)
        waited = now - self._answered
        if self._report is not None and not isinstance(error, StorageLost):
            return f"the study {self._report.study.name} was deleted"
        return f"{self._trouble} (for {waited:.0f} s)" if waited >= PATIENCE_SECONDS else ""

    def _end(self, report: StudyReport, now: float) -> str:
        name = report.study.name
        doing = status(report)
        if doing in ("running", "verifying", "no trial has begun"):
            self._active = now
            return ""
        wanted = search_options(report.study.config, report.study.folder).get("verify", 0)
        verified = min(wanted, report.figures.counts["finished"])
        if doing == "complete" and len(report.study.verified) >= verified:
            return f"the study {name} is complete"
        if now - self._active < IDLE_SECONDS:
            return ""
        return f"the study {name} has had nothing in training for {IDLE_SECONDS:.0f} s: `rookery search` continues it"

    def _draw(self, live: Live) -> None:
        if self._console.is_terminal:
            shown = Text(self._trouble or "waiting for the study", "yellow")
            if self._report is not None and not self._trouble:
                live.update(report_text(self._report, self._console.width, self._top), refresh=True)
            else:
                live.update(shown, refresh=True)
            return
        line = self._trouble or (status_line(self._report) if self._report else "")
        if line and line != self._line:
            print(line, flush=True)
            self._line = line
