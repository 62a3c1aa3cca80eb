"""Plain lines for logs, and the choice between them and the panel."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from rookery.console import LONG_SECONDS
from rookery.monitor import run_summary
from rookery.monitor.events import Event, RunState, Sink, printable_event
from rookery.monitor.formatting import count, duration, episode_rate, number, percent, rate, score, settings_text

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 30.0  # between two lines of progress
STEP_SHARE = 0.02  # of the run, between two lines of progress


class LogLines:
    """Prints a line of progress at intervals, every evaluation and note, and the summary at the end."""

    def __init__(self, total_steps: int | None = None, stream: TextIO | None = None) -> None:
        """Progress goes to `stream` (standard error), the summary to standard output unless a stream is given."""
        self._stream, self._summary_to = stream or sys.stderr, stream
        self._state = RunState(total_steps)
        self._last_time = self._last_done = 0.0

    def write(self, event: Event) -> None:
        event = printable_event(event)
        self._state.add(event)
        if event.kind == "start":
            self._put(_start_line(event.values))
            self._last_time, self._last_done = event.time, self._state.done or 0.0
        elif event.kind == "progress" and self._is_due(event):
            self._put(self._progress_line())
            self._last_time, self._last_done = event.time, self._state.done or 0.0
        elif event.kind == "evaluation":
            self._put(_evaluation_line(event))
        elif event.kind == "doing" and event.values.get("compiling") and event.time - self._last_time >= LONG_SECONDS:
            self._put(event.values["text"])
            self._last_time = event.time
        elif event.kind == "note":
            self._put(f"note: {event.values.get('text', '')}")
        elif event.kind == "end":
            run_summary.print_summary(event.values, self._summary_to)

    def close(self) -> None:
        """Nothing is buffered, so there is nothing to do."""

    def _is_due(self, event: Event) -> bool:
        waited = event.time - self._last_time
        advanced = (self._state.done or 0.0) - self._last_done > 0.999 * STEP_SHARE
        return waited >= LONGEST_SECONDS or (waited >= SHORTEST_SECONDS and advanced)

    def _progress_line(self) -> str:
        if self._state.facts.get("episodes"):
            return self._episode_line(self._state.facts["episodes"])
        values = self._state.values
        done = self._state.done
        parts = [] if done is None else [f"{percent(done):>5}"]
        parts.append(f"{count(self._state.step)} steps")
        if values.get("steps_per_second") is not None:
            parts.append(f"{rate(values['steps_per_second'])}/s")
        if values.get("eta_seconds") is not None:
            parts.append(f"{duration(values['eta_seconds'])} left")
        parts.append(f"return {number(values.get('episode/return'))}")
        parts.append(f"length {number(values.get('episode/length'))}")
        rates = episode_rate(values)
        parts.append(f"episodes {count(values.get('episodes'))}" + (f" ({', '.join(rates)})" if rates else ""))
        return "  ".join(parts)

    def _episode_line(self, episodes: int) -> str:
        """Of a run whose length is in episodes."""
        values = self._state.values
        parts = [f"Episode {values.get('episodes', 0)}/{episodes}"]
        parts.append(f"Reward {number(values.get('episode/latest_return'))}")
        parts.append(f"Length {number(values.get('episode/latest_length'))}")
        parts.append(f"Mean(100) {number(values.get('episode/return'))}")
        speed = values.get("steps_per_second")
        parts.append(f"{count(self._state.step)} steps" + (f", {rate(speed)}/s" if speed is not None else ""))
        if values.get("eta_seconds") is not None:
            parts.append(f"{duration(values['eta_seconds'])} left")
        return " | ".join(parts)

    def _put(self, line: str) -> None:
        """Write and flush. Characters that the stream's encoding lacks are replaced."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()


def make_console_sink(total_steps: int | None = None, *, panel: bool = True) -> Sink:
    """The panel on a terminal; plain lines elsewhere, or if `panel` is False."""
    screen = next((stream for stream in (sys.stderr, sys.stdout) if _can_show(stream)), None)
    if not panel or screen is None:
        return LogLines(total_steps)
    from rookery.monitor.live_panel import LivePanel

    return LivePanel(total_steps, screen)


def _can_show(stream: TextIO | None) -> bool:
    """Whether this is a terminal that can move its cursor and has block characters."""
    if stream is None or not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")


def _start_line(facts: Any) -> str:
    where = f" in {facts['path']}" if facts.get("path") else ""
    resumed = facts.get("resumed_from")
    resumed_text = f", resumed at step {count(resumed)}" if resumed is not None else ""
    return f"{facts.get('world', 'training')}: {', '.join(settings_text(facts))}{where}{resumed_text}"


def _evaluation_line(event: Event) -> str:
    episodes = event.values.get("eval/episodes")
    over = f" over {count(episodes)} episodes" if episodes else ""
    best = ", the best so far" if event.values.get("eval/best") else ""
    return f"evaluation at {count(event.step)}: {score(event.values)}{over}{best}"
