"""What a search returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rookery.studies.report.study_figures import pareto_front
from rookery.studies.storage.study_view import StudyView, TrialView


@dataclass(frozen=True)
class BestTrial:
    """A trial that may be used: what it reached on tuning seeds, and on held-out seeds if it was verified."""

    number: int
    settings: dict[str, Any]
    value: float | None  # by which it was chosen: biased upwards
    interval: tuple[float, float] | None
    verified_value: float | None = None
    verified_interval: tuple[float, float] | None = None
    runs: tuple[str, ...] = ()  # of the verification, below the study's folder; else of the trial


@dataclass(frozen=True)
class StudyResult:
    """Returned by `rookery.search`. `best` is the best verified trial; without any, the best unverified one."""

    study_name: str
    path: Path
    storage: str
    finished: int
    running: int
    failed: int
    pruned: int
    best: BestTrial | None
    verified: tuple[BestTrial, ...]  # the best first
    front: tuple[dict[str, Any], ...]  # of two objectives: trials that no other beats in both
    pruning: dict[str, Any] | None  # what was saved, and what that may have cost
    seconds: float
    reason: str  # "finished", "timeout", "interrupted", or why it failed
    exit_code: int = 0

    @property
    def best_value(self) -> float | None:
        """On held-out seeds if the best was verified, else on tuning seeds."""
        if self.best is None:
            return None
        return self.best.value if self.best.verified_value is None else self.best.verified_value

    @property
    def best_params(self) -> dict[str, Any] | None:
        """The settings of the best trial."""
        return None if self.best is None else self.best.settings

    def as_json(self) -> dict[str, Any]:
        """All of it, as plain values."""
        values = asdict(self) | {"path": str(self.path)}
        return values | {"best_value": self.best_value, "best_params": self.best_params}


def best_trials(view: StudyView) -> tuple[BestTrial | None, tuple[BestTrial, ...]]:
    """The trial to use, and all verified ones, the best first."""
    ranked = sorted(view.verified.values(), key=lambda one: (-one.iqm, one.number))
    pairs = [(view.trial(one.number), one) for one in ranked if one.iqm == one.iqm]
    verified = tuple(
        BestTrial(trial.number, dict(trial.settings), trial.value, trial.interval, one.iqm,
                  one.interval, one.runs)
        for trial, one in pairs if trial is not None
    )  # fmt: skip
    if verified or view.best is None:
        return (verified[0] if verified else None), verified
    return _unverified(view.best), ()


def front_of(view: StudyView) -> tuple[dict[str, Any], ...]:
    """Trials of two objectives that no other beats in both, by falling value; empty with one objective."""
    return tuple(
        {"number": one.number, "value": one.values[0], "seconds": one.values[1], "settings": dict(one.settings)}
        for one in (pareto_front(view) if len(view.directions) > 1 else ())
    )


def _unverified(trial: TrialView) -> BestTrial:
    runs = tuple(str(part["run"]) for part in trial.parts.values() if part.get("run"))
    return BestTrial(trial.number, dict(trial.settings), trial.value, trial.interval, runs=runs)
