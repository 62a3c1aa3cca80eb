"""All that the report of a study shows, as text, as JSON or as plots: read and computed once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rookery.errors import RunError
from rookery.monitor.jsonl import plain
from rookery.studies.report.importances import Method, importances
from rookery.studies.report.study_figures import StudyFigures, pareto_front, study_figures, top_trials
from rookery.studies.storage.study_view import StudyView, TrialView, VerifiedTrial
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import row

FOLD, VERIFY = "fold-", "verify-"  # what the names of parts begin with
RUN_NAME = re.compile(r"trial-(?P<trial>\d{5,})-(?P<part>[a-z]+-\d+)")


@dataclass(frozen=True)
class RunProgress:
    """A run of a trial that continues."""

    trial: int
    part: str  # "seed-0", "fold-3"
    steps: int
    total: int | None
    value: float | None  # its latest evaluation
    steps_per_second: float | None
    is_busy: bool  # whether a process is training it now, on this machine

    @property
    def share(self) -> float | None:
        return min(1.0, self.steps / self.total) if self.total else None


def running_parts(study: StudyView) -> list[RunProgress]:
    """The runs of running trials that have not ended, and those by which trials are being verified."""
    if study.folder is None:
        return []
    running = {trial.number: trial.parts for trial in study.of_state("running")}
    found = []
    for number, part, folder in _run_folders(study.folder / "runs"):
        verifies = part.startswith(VERIFY)
        if verifies and number not in study.verified:
            progress = _progress(number, part, folder)
            found += [progress] if progress is not None and progress.is_busy else []
        elif not verifies and number in running and running[number].get(part, {}).get("value") is None:
            progress = _progress(number, part, folder)
            found += [progress] if progress is not None else []
    return found


def _run_folders(runs: Path) -> list[tuple[int, str, Path]]:
    """The number of the trial, the name of the part, and the folder of each run, in the order of trials."""
    try:
        names = os.listdir(runs)
    except OSError:  # there is no run yet, or the study is gone
        return []
    matches = [match for match in map(RUN_NAME.fullmatch, names) if match]
    return sorted((int(match["trial"]), match["part"], runs / match[0]) for match in matches)


def _progress(trial: int, part: str, folder: Path) -> RunProgress | None:
    try:
        run = RunDir(folder)
        found = row(run)
        total = run.read_config().get("steps") if run.config.exists() else None
    except (OSError, RunError):  # it is being made, or was deleted
        return None
    return RunProgress(
        trial=trial,
        part=part,
        steps=int(found["steps"] or 0),
        total=total if isinstance(total, int) and total > 0 else None,
        value=found["last_eval"],
        steps_per_second=found["steps_per_second"],
        is_busy=found["state"] == "running",
    )


@dataclass(frozen=True)
class StudyReport:
    """A study with what follows from its trials."""

    study: StudyView
    figures: StudyFigures
    method: Method
    importances: Mapping[str, float]
    progress: list[RunProgress]
    market: Mapping[str, Any] | None = None  # overfitting figures; None unless trials have folds
    front: list[TrialView] = field(default_factory=list)  # of a study with several objectives

    def top(self, count: int) -> list[TrialView]:
        """The best trials; with several objectives, those of the Pareto front."""
        return self.front[:count] if self.front else top_trials(self.study, count)


class Reporter:
    """Makes reports of a study again and again. Slow parts are computed again only if trials have ended."""

    def __init__(self, method: Method = "ped-anova") -> None:
        self._method = method
        self._ended = -1
        self._importances: Mapping[str, float] = {}
        self._market: Mapping[str, Any] | None = None

    def report(self, study: StudyView, now: datetime | None = None) -> StudyReport:
        figures = study_figures(study, now)
        if figures.ended != self._ended:
            self._ended = figures.ended
            self._importances = importances(study, self._method)
            self._market = _market(study)
        return StudyReport(
            study=study,
            figures=figures,
            method=self._method,
            importances=self._importances,
            progress=running_parts(study),
            market=self._market,
            front=pareto_front(study) if len(study.directions) > 1 else [],
        )


def has_folds(study: StudyView) -> bool:
    """Whether trials are cross-validated, as in market worlds."""
    return any(name.startswith(FOLD) for trial in study.trials for name in trial.parts)


def _market(study: StudyView) -> Mapping[str, Any] | None:
    if not has_folds(study):
        return None
    from rookery.studies.report.market_overfitting import market_figures

    return market_figures(study)


def report_json(report: StudyReport) -> dict[str, Any]:
    """The report. NaN and infinity, which JSON does not have, are null."""
    study, figures = report.study, report.figures
    best, tuning = study.chosen, study.best
    verified = None if best is None else study.verified.get(best.number)
    made: dict[str, Any] = {
        "study": study.name,
        "storage": study.storage,
        "direction": "maximize" if study.maximise else "minimize",
        "directions": ["maximize" if maximised else "minimize" for maximised in study.directions],
        **{str(state): count for state, count in figures.counts.items()},
        "n_trials": figures.n_trials,
        "trials_per_hour": figures.trials_per_hour,
        "eta_seconds": figures.eta_seconds,
        "busy_seconds": figures.busy_seconds,
        "timeout_seconds": figures.timeout_seconds,
        "steps": figures.steps,
        "saved_seconds": figures.saved_seconds,
        "failures": dict(figures.failures),
        "best_trial": None if best is None else best.number,
        "best_value": verified.iqm if verified else best.value if best else None,
        "best_interval": verified.interval if verified else best.interval if best else None,
        "best_params": None if best is None else best.settings,
        "best_is_verified": verified is not None,
        "best_tuning_trial": None if tuning is None else tuning.number,
        "best_tuning_value": None if tuning is None else tuning.value,
        "verified": [_verified(each) for each in study.verified.values()],
        "pareto_front": [trial.number for trial in report.front],
        "importances": report.importances,
        "market": report.market,
        "progress": [{**asdict(each), "share": each.share} for each in report.progress],
        "trials": [trial_json(trial) for trial in study.trials],
    }
    found: dict[str, Any] = plain(made)
    return found


def trial_json(trial: TrialView) -> dict[str, Any]:
    """A trial with its settings by key of the configuration, as `params`."""
    return {
        "number": trial.number,
        "state": trial.state,
        "value": trial.value,
        "values": trial.values,
        "params": trial.settings,
        "interval": trial.interval,
        "parts": trial.parts,
        "seconds": trial.seconds,
        "steps": trial.steps,
        "reason": trial.reason,
        "started": None if trial.started is None else trial.started.isoformat(),
        "ended": None if trial.ended is None else trial.ended.isoformat(),
    }


def _verified(trial: VerifiedTrial) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "value": trial.iqm,
        "interval": trial.interval,
        "values": trial.values,
        "runs": trial.runs,
    }
