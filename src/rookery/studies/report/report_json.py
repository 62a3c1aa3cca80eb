"""The report of a study as JSON, for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rookery.studies.report.report import StudyReport
from rookery.studies.report.run_progress import as_json as progress_as_json
from rookery.studies.storage.study_view import TrialView, VerifiedTrial


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
        "progress": [progress_as_json(each) for each in report.progress],
        "trials": [trial_json(trial) for trial in study.trials],
    }
    return {key: plain(value) for key, value in made.items()}


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


def plain(value: Any) -> Any:
    """The value with what JSON does not have replaced: tuples by lists, NaN and infinity by None."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _verified(trial: VerifiedTrial) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "value": trial.iqm,
        "interval": trial.interval,
        "values": trial.values,
        "runs": trial.runs,
    }
