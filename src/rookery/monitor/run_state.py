"""The state of a run, accumulated from its events, which the panel and the log lines show."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from rookery.monitor.events import Event
from rookery.monitor.formatting import PARTS

HALF_LIFE_SECONDS = 5.0  # of the time shares: rollouts and updates alternate faster than one can read


class DownsampledCurve:
    """A curve of bounded length: when it is full, pairs of points are averaged, and each later point is a mean of more
    values.

    >>> curve = DownsampledCurve(capacity=4)
    >>> for value in (1, 3, 5, 7, 9, 11):
    ...     curve.add(value)
    >>> curve.points
    [2.0, 6.0, 10.0]
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity, self._per_point = capacity, 1
        self._done: list[float] = []
        self._open: list[float] = []

    @property
    def points(self) -> list[float]:
        """From the first to the latest."""
        return self._done + ([_mean(self._open)] if self._open else [])

    def add(self, value: float) -> None:
        self._open.append(value)
        if len(self._open) < self._per_point:
            return
        self._done.append(_mean(self._open))
        self._open.clear()
        if len(self._done) == self._capacity:
            self._done = [_mean(self._done[i : i + 2]) for i in range(0, self._capacity, 2)]
            self._per_point *= 2


class RunState:
    """Updated by `add`; the attributes are the current state."""

    def __init__(self, total_steps: int | None = None) -> None:
        self.facts: dict[str, Any] = {"steps": total_steps}
        self.step = 0
        self.seconds = 0.0
        self.values: dict[str, Any] = {}
        self.shares: dict[str, float] = {}
        self.returns = DownsampledCurve()
        self.evaluation: Event | None = None
        self.best: Event | None = None
        self.checkpoint: Event | None = None
        self.notes: deque[str] = deque(maxlen=3)
        self.doing = ""
        self.end: Mapping[str, Any] | None = None
        self._began = self._progressed = math.nan
        self._progress_step = -1  # of `values`

    @property
    def total(self) -> int:
        """Number of steps of the run; 0 if it is not known."""
        return int(self.facts.get("steps") or 0)

    @property
    def done(self) -> float | None:
        """The share of the run that is done, from 0 to 1; None if its length is not known. It is that of the latest
        event: the `share` of progress is too small for later steps."""
        by_steps = self.step / self.total if self.total else None
        share = self.values.get("share")
        if share is None or (by_steps is not None and self.step > self._progress_step):
            share = by_steps if share is None else max(share, by_steps or 0.0)
        return None if share is None else min(1.0, share)

    @property
    def ends_by_steps(self) -> bool:
        """Whether the number of steps is what the run waits for, as far as is known: not where episodes or phases are
        further on."""
        return bool(self.total) and abs((self.done or 0.0) - min(1.0, self.step / self.total)) < 0.005

    def add(self, event: Event) -> None:
        if event.kind == "start":
            self._began = event.time
        self.step = max(self.step, event.step) if event.kind != "start" else event.step
        self.seconds = self._seconds_at(event)
        if event.kind != "note":
            self.doing = ""
        if event.values.get("num_envs"):
            self.facts["num_envs"] = event.values["num_envs"]
        handle = getattr(self, f"_on_{event.kind}", None)
        if handle is not None:
            handle(event)

    def _seconds_at(self, event: Event) -> float:
        """How long the run has taken in all, also before it was resumed."""
        if isinstance(event.values.get("seconds"), float | int) and event.kind in ("progress", "end"):
            self._began = event.time - event.values["seconds"]
        return event.time - self._began if math.isfinite(self._began) else 0.0

    def _on_start(self, event: Event) -> None:
        self.facts.update((name, value) for name, value in event.values.items() if value is not None)

    def _on_progress(self, event: Event) -> None:
        self.values.update(event.values)
        self._progress_step = event.step
        latest = event.values.get("episode/return")
        if latest is not None and math.isfinite(latest):
            self.returns.add(latest)
        self._on_shares(event)

    def _on_shares(self, event: Event) -> None:
        elapsed = event.time - self._progressed
        self._progressed = event.time
        fresh = {part: event.values.get(f"time/{part}") or 0.0 for part in PARTS}
        if not any(fresh.values()):
            return
        keep = 0.5 ** (elapsed / HALF_LIFE_SECONDS) if self.shares else 0.0
        self.shares = {part: keep * self.shares.get(part, 0.0) + (1 - keep) * fresh[part] for part in PARTS}

    def _on_evaluation(self, event: Event) -> None:
        self.evaluation = event
        if event.values.get("eval/best") or self.best is None:
            self.best = event

    def _on_checkpoint(self, event: Event) -> None:
        self.checkpoint = event

    def _on_note(self, event: Event) -> None:
        self.notes.append(" ".join(str(event.values.get("text", "")).split()))

    def _on_doing(self, event: Event) -> None:
        self.doing = str(event.values.get("text", ""))

    def _on_end(self, event: Event) -> None:
        self.end = event.values


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
