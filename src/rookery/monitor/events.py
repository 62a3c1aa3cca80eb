"""Events, the sinks they go to, and the state of a run that follows from its events.

A run reports what happens as events of a few kinds:

    start        run, path, world, learner, num_envs, backend, workers, start_method, device, steps, ...
    progress     steps_per_second, seconds, eta_seconds, share, episodes, episodes_per_second, episodes_in_rollout,
                 episode/return, info/<name>, loss/<name>, time/<part>, system/<figure>, cluster/<figure>, ...
    evaluation   eval/return, eval/return_std, eval/return_low, eval/return_high (the 95 % interval of the mean),
                 eval/length, eval/episodes, eval/seconds, eval/best
    checkpoint   path, seconds, bytes
    note         text: a choice, a change of num_envs; with `warning` something that may be wrong
    doing        text: a long operation has started; shown until the next event that is not a note, never stored
    end          the metrics of the summary, and the reason
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time as unix_time
from typing import Any, Protocol

from rookery.console import printable, printable_lines, say
from rookery.monitor.formatting import PARTS

HALF_LIFE_SECONDS = 5.0  # of the time shares: rollouts and updates alternate faster than one can read


@dataclass(frozen=True)
class Event:
    """Something that happened at `step` of a run; `values` are flat, their numbers plain Python ones."""

    kind: str
    step: int
    values: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=unix_time)


class Sink(Protocol):
    """Where events go: a screen, a file, a service."""

    def write(self, event: Event) -> None:
        """Handle one event. A sink that raises is removed; the run continues."""

    def close(self) -> None:
        """Release all resources; may be called twice."""


class Sinks(list[Sink]):
    """Several sinks as one. A sink that fails is reported once and removed; the others continue.

    >>> with Sinks() as sinks:
    ...     sinks.write(Event("note", 0, {"text": "no sink gets this"}))
    """

    def write(self, event: Event) -> None:
        """Hand `event` to every sink, in order."""
        for sink in list(self):
            try:
                sink.write(event)
            except Exception as error:  # noqa: BLE001 - a full disk or a service gone must not end a run
                self.remove(sink)
                _close(sink)
                say(f"{type(sink).__name__} failed and is removed, the run continues without it: {_reason(error)}")

    def close(self) -> None:
        """Close every sink; safe to call twice, and while an exception passes."""
        while self:
            _close(self.pop())

    def __enter__(self) -> Sinks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def printable_event(event: Event) -> Event:
    """The event without control characters, so that names in it cannot move the cursor of a terminal."""
    values = {printable(name): _as_text(name, value) for name, value in event.values.items()}
    return Event(event.kind, event.step, values, event.time)


def _as_text(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return printable_lines(value) if name in ("text", "reason") else printable(value)


def scalars(event: Event) -> dict[str, float]:
    """The numbers of an event to be plotted: those of progress and evaluations.

    >>> scalars(Event("evaluation", 10, {"eval/return": 9, "eval/best": True}))
    {'eval/return': 9.0}
    """
    if event.kind not in ("progress", "evaluation"):
        return {}
    return {
        name: float(value)
        for name, value in event.values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _close(sink: Sink) -> None:
    try:
        sink.close()
    except Exception as error:  # noqa: BLE001 - the same reasons as in `write`
        say(f"{type(sink).__name__} could not be closed: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


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
        values = event.values
        match event.kind:
            case "start":
                self.facts.update((name, value) for name, value in values.items() if value is not None)
            case "progress":
                self._on_progress(event)
            case "evaluation":
                self.evaluation = event
                if values.get("eval/best") or self.best is None:
                    self.best = event
            case "checkpoint":
                self.checkpoint = event
            case "note":
                self.notes.append(" ".join(str(values.get("text", "")).split()))
            case "doing":
                self.doing = str(values.get("text", ""))
            case "end":
                self.end = values

    def _seconds_at(self, event: Event) -> float:
        """How long the run has taken in all, also before it was resumed."""
        if isinstance(event.values.get("seconds"), float | int) and event.kind in ("progress", "end"):
            self._began = event.time - event.values["seconds"]
        return event.time - self._began if math.isfinite(self._began) else 0.0

    def _on_progress(self, event: Event) -> None:
        self.values.update(event.values)
        self._progress_step = event.step
        latest = event.values.get("episode/return")
        if latest is not None and math.isfinite(latest):
            self.returns.add(latest)
        elapsed = event.time - self._progressed
        self._progressed = event.time
        fresh = {part: event.values.get(f"time/{part}") or 0.0 for part in PARTS}
        if not any(fresh.values()):
            return
        keep = 0.5 ** (elapsed / HALF_LIFE_SECONDS) if self.shares else 0.0
        self.shares = {part: keep * self.shares.get(part, 0.0) + (1 - keep) * fresh[part] for part in PARTS}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
