"""Plain lines for logs, and the choice between them and the panel."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from rookery.monitor import run_summary
from rookery.monitor.events import Event, Sink, shown
from rookery.monitor.formatting import count, duration, number, percent, rate, score, setting
from rookery.monitor.run_state import RunState

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 30.0  # between two lines of progress
STEP_SHARE = 0.02  # of the run, between two lines of progress


class Lines:
    """One line now and then, every evaluation and note, and the summary at the end."""

    def __init__(self, total_steps: int | None = None, stream: TextIO | None = None) -> None:
        """Progress goes to `stream` (standard error), the summary to standard output unless a stream is given."""
        self._stream, self._summary_to = stream or sys.stderr, stream
        self._picture = RunState(total_steps)
        self._last_time = self._last_done = 0.0

    def write(self, event: Event) -> None:
        event = shown(event)
        self._picture.add(event)
        if event.kind == "start":
            self._put(_start_line(event.values))
            self._last_time, self._last_done = event.time, self._picture.done or 0.0
        elif event.kind == "progress" and self._is_due(event):
            self._put(self._progress_line())
            self._last_time, self._last_done = event.time, self._picture.done or 0.0
        elif event.kind == "evaluation":
            self._put(_evaluation_line(event))
        elif event.kind == "note":
            self._put(f"note: {event.values.get('text', '')}")
        elif event.kind == "end":
            run_summary.show(event.values, self._summary_to)

    def close(self) -> None:
        """Nothing is held back, so there is nothing to do."""

    def _is_due(self, event: Event) -> bool:
        waited = event.time - self._last_time
        far = (self._picture.done or 0.0) - self._last_done > 0.999 * STEP_SHARE
        return waited >= LONGEST_SECONDS or (waited >= SHORTEST_SECONDS and far)

    def _progress_line(self) -> str:
        values = self._picture.values
        done = self._picture.done
        parts = [] if done is None else [f"{percent(done):>5}"]
        parts.append(f"{count(self._picture.step)} steps")
        parts.append(f"{rate(values.get('steps_per_second'))}/s")
        if values.get("eta_seconds") is not None:
            parts.append(f"{duration(values['eta_seconds'])} left")
        parts.append(f"return {number(values.get('episode/return'))}")
        parts.append(f"length {number(values.get('episode/length'))}")
        parts.append(f"episodes {count(values.get('episodes'))}")
        return "  ".join(parts)

    def _put(self, line: str) -> None:
        """Write at once, in what the stream's encoding can say: a log in ASCII must not stop the lines."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()


def make_console_sink(total_steps: int | None = None, *, panel: bool = True) -> Sink:
    """The panel where somebody looks at a terminal; plain lines elsewhere, or if no panel is wanted."""
    screen = next((stream for stream in (sys.stderr, sys.stdout) if _can_show(stream)), None)
    if not panel or screen is None:
        return Lines(total_steps)
    from rookery.monitor.live_panel import Terminal

    return Terminal(total_steps, screen)


def _can_show(stream: TextIO | None) -> bool:
    """Whether this is a terminal that moves its cursor and has the block characters."""
    if stream is None or not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "").startswith("utf")


def _start_line(facts: Any) -> str:
    where = f" in {facts['path']}" if facts.get("path") else ""
    resumed = facts.get("resumed_from")
    going_on = f", resumed at step {count(resumed)}" if resumed is not None else ""
    return f"{facts.get('world', 'training')}: {', '.join(setting(facts))}{where}{going_on}"


def _evaluation_line(event: Event) -> str:
    episodes = event.values.get("eval/episodes")
    over = f" over {count(episodes)} episodes" if episodes else ""
    best = ", the best so far" if event.values.get("eval/best") else ""
    return f"evaluation at {count(event.step)}: {score(event.values)}{over}{best}"
