"""Events, and the sinks they go to.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time as unix_time
from typing import Any, Protocol

from rookery.console import printable, printable_lines, say


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
