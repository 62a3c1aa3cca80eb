"""A trial of a study, for reading: what Optuna's storage holds with the attributes that rookery adds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rookery.studies.storage.stored_trials import State, StoredTrial
from rookery.studies.storage.trial_attributes import INTERVAL, PARTS, REASON, SECONDS, SETTINGS, verified_number


@dataclass(frozen=True)
class TrialView:
    """A trial: its settings, and what came of them."""

    number: int
    state: State
    value: float | None = None  # the first of `values`
    values: tuple[float, ...] = ()  # one per objective; none unless the trial has finished
    settings: Mapping[str, Any] = field(default_factory=dict)  # by key of the configuration
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by seed or fold: value, run, seconds, steps
    interval: tuple[float, float] | None = None  # 95 % interval of the value
    seconds: float | None = None
    steps: int | None = None
    reason: str | None = None  # of a failure or of pruning
    started: datetime | None = None  # local time, as Optuna records it
    ended: datetime | None = None
    params: Mapping[str, Any] = field(default_factory=dict)  # as Optuna holds them
    distributions: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_comparable(self) -> bool:
        """Whether the trial finished with numbers; NaN and infinity are never the best."""
        return self.state == "finished" and bool(self.values) and all(map(math.isfinite, self.values))


@dataclass(frozen=True)
class VerifiedTrial:
    """A trial that was trained again with held-out seeds."""

    number: int
    iqm: float
    interval: tuple[float, float] | None = None
    values: Mapping[str, float] = field(default_factory=dict)  # by seed
    runs: tuple[str, ...] = ()  # folders, relative to the study's


def trial_view(trial: StoredTrial) -> TrialView:
    """A stored trial with the attributes that rookery gives it; those of others have fewer."""
    attributes = trial.attributes
    parts = _table(attributes.get(PARTS))
    seconds = _number(attributes.get(SECONDS))
    if seconds is None and trial.started and trial.ended:
        seconds = (trial.ended - trial.started).total_seconds()
    steps = [part["steps"] for part in parts.values() if isinstance(part.get("steps"), int)]
    reason = attributes.get(REASON) or trial.fail_reason
    return TrialView(
        number=trial.number,
        state=trial.state,
        value=trial.values[0] if trial.values else None,
        values=trial.values,
        settings=_table(attributes.get(SETTINGS)) or trial.params,
        parts=parts,
        interval=_interval(attributes.get(INTERVAL)),
        seconds=seconds,
        steps=sum(steps) if steps else None,
        reason=str(reason) if reason else None,
        started=trial.started,
        ended=trial.ended,
        params=trial.params,
        distributions=trial.distributions,
    )


def verified_trials(attributes: Mapping[str, Any]) -> dict[int, VerifiedTrial]:
    """The verified trials of a study by number, from its attributes."""
    found = {}
    for key, value in attributes.items():
        number = verified_number(key)
        if number is not None and isinstance(value, dict):
            found[number] = VerifiedTrial(
                number=number,
                iqm=math.nan if (iqm := _number(value.get("iqm"))) is None else iqm,
                interval=_interval(value.get("interval")),
                values=_table(value.get("values")),
                runs=tuple(map(str, value.get("runs") or ())),
            )
    return dict(sorted(found.items()))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _interval(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = map(_number, value)
    return None if low is None or high is None or math.isnan(low + high) else (low, high)
