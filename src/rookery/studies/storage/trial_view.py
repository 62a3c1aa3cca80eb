"""What is known of a trial: the attributes that rookery keeps beside what Optuna does, and a trial for reading.

Names of attributes begin with `rookery:`, so that they meet neither Optuna's own nor those of other programs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

FORMAT = 1  # of what rookery keeps in a study; a study of a higher one is rejected

# of a trial
SETTINGS = "rookery:settings"  # {key of the configuration: value}
PARTS = "rookery:parts"  # {name: {"value", "run": path in the study's folder, "seconds", "steps", "reason"}}
INTERVAL = "rookery:interval"  # [low, high] of the trial's value
SECONDS = "rookery:seconds"  # of training: of parts side by side, their time together
REASON = "rookery:reason"  # why a trial failed or was pruned
LINEAGE = "rookery:lineage"  # of a member of a population: [{"step", "from", "settings": {key: [before, after]}}]
FAIL_REASON, FIXED_PARAMS = "fail_reason", "fixed_params"  # Optuna's own

# of a study
STUDY_FORMAT = "rookery:format"
STUDY_ID = "rookery:id"  # also in study.json: a folder and a database that do not belong together are rejected
STUDY_CONFIG = "rookery:config"  # the configuration that is varied, as JSON
_VERIFIED = "rookery:verified:"

State = Literal["waiting", "running", "finished", "pruned", "failed"]
LONGEST_DISTRIBUTION = 64 << 10  # characters
NUMBERS = ("Float", "Uniform", "LogUniform", "DiscreteUniform", "Int", "IntUniform", "IntLogUniform")


def verified_key(number: int) -> str:
    """The attribute of the study that holds what a verified trial reached.

    Its value is {"values": {seed: value}, "iqm": float, "interval": [low, high], "runs": [paths]}.

    >>> verified_key(12)
    'rookery:verified:12'
    """
    return f"{_VERIFIED}{number}"


def verified_number(key: str) -> int | None:
    """The trial's number in such a key; None for another key.

    >>> verified_number("rookery:verified:12"), verified_number("rookery:format")
    (12, None)
    """
    number = key.removeprefix(_VERIFIED)
    return int(number) if number != key and number.isdecimal() else None


@dataclass(frozen=True)
class Distribution:
    """What a parameter may be: a number between two ends, or one of several choices."""

    text: str  # as Optuna writes it
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: list[Any] | None = None
    whole: bool = False

    @classmethod
    def read(cls, text: str) -> Distribution:
        """From Optuna's JSON.

        >>> Distribution.read('{"name": "IntDistribution", "attributes": {"low": 1, "high": 8, "log": true}}').high
        8
        """
        if len(text) > LONGEST_DISTRIBUTION:
            raise ValueError(f"the distribution of a parameter has more than {LONGEST_DISTRIBUTION:,} characters")
        found = json.loads(text)
        kind, given = str(found["name"]).removesuffix("Distribution"), found["attributes"]
        if kind == "Categorical":
            return cls(text, choices=list(given["choices"]))
        if kind not in NUMBERS:
            raise ValueError(f"{kind[:60]!r} is not a distribution of Optuna's")
        log = bool(given.get("log")) or "Log" in kind
        return cls(text, given["low"], given["high"], log, whole=kind.startswith("Int"))

    def value(self, stored: float) -> Any:
        """The value of a parameter for which a database of Optuna's has this number."""
        if self.choices is not None:
            return self.choices[int(stored)]
        return int(stored) if self.whole else stored

    def stored(self, value: Any) -> float:
        """The number for a value: choices are their places."""
        if self.choices is None:
            return float(value)
        return next(float(k) for k, each in enumerate(self.choices) if each == value and type(each) is type(value))


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

    @classmethod
    def read(
        cls, number: int, state: State, values: tuple[float, ...], params: Mapping[str, Any],
        moments: tuple[datetime | None, datetime | None], attributes: Mapping[str, Any],
    ) -> TrialView:  # fmt: skip
        """A trial with the attributes that rookery gives it; those of others have fewer."""
        started, ended = moments
        parts, params = _table(attributes.get(PARTS)), params or _table(attributes.get(FIXED_PARAMS))
        seconds = _number(attributes.get(SECONDS))
        if seconds is None and started and ended:
            seconds = (ended - started).total_seconds()
        steps = [part["steps"] for part in parts.values() if isinstance(part.get("steps"), int)]
        return cls(
            number=number,
            state=state,
            value=values[0] if values else None,
            values=values,
            settings=_table(attributes.get(SETTINGS)) or params,
            parts=parts,
            interval=_interval(attributes.get(INTERVAL)),
            seconds=seconds,
            steps=sum(steps) if steps else None,
            reason=reason_of(attributes),
            started=started,
            ended=ended,
            params=params,
        )

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


def best_verified(verified: Mapping[int, VerifiedTrial], maximise: bool) -> VerifiedTrial | None:
    """The trial with the best interquartile mean over held-out seeds; None if none was verified."""
    sign = 1 if maximise else -1
    known = [trial for trial in verified.values() if math.isfinite(trial.iqm)]
    return max(known, key=lambda trial: (sign * trial.iqm, -trial.number), default=None)


def reason_of(attributes: Mapping[str, Any]) -> str | None:
    """Why a trial failed or was pruned, if its attributes say."""
    found = attributes.get(REASON) or attributes.get(FAIL_REASON)
    return str(found) if found else None


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _interval(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = map(_number, value)
    return None if low is None or high is None or math.isnan(low + high) else (low, high)
