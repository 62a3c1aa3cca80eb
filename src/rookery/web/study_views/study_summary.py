"""How a study goes and what it found, from its columns: the same figures as those of `rookery study`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rookery.studies.report.study_figures import search_options
from rookery.studies.storage.study_view import StudyView
from rookery.studies.storage.trial_attributes import STUDY_CONFIG
from rookery.studies.storage.trial_view import VerifiedTrial, verified_trials
from rookery.web.study_views.trial_columns import FAILED, FINISHED, PRUNED, RUNNING, STATE_NAMES, Floats, TrialColumns

MOST_FRONT = 2_000  # trials of a Pareto front that are named


def summary(columns: TrialColumns, folder: Path | None, now: float) -> dict[str, Any]:
    """The figures of a study; unknown ones are None. `now` is in seconds since 1970."""
    config = columns.head.attributes.get(STUDY_CONFIG)
    config = config if isinstance(config, dict) else {}
    search = search_options(StudyView("", folder, "", True, (), config=config))
    counts: dict[str, int] = {name: int((columns.state == code).sum()) for code, name in enumerate(STATE_NAMES)}
    ended = counts["finished"] + counts["pruned"] + counts["failed"]
    n_trials = search.get("n_trials")
    n_trials = n_trials if isinstance(n_trials, int) and n_trials > 0 else None
    busy = busy_seconds(columns, now)
    rate = 3600 * ended / busy if ended and busy > 0 else None
    eta = 3600 * max(0, n_trials - ended) / rate if rate and n_trials and counts["running"] else None
    known = np.concatenate([columns.start, columns.end])
    known = known[np.isfinite(known)]
    return {
        "world": _text(config.get("world")), "learner": _text(config.get("learner")),
        "state": _state(counts, ended, n_trials), "counts": counts, "trials": len(columns), "n_trials": n_trials,
        "maximise": list(columns.head.directions), "trials_per_hour": rate, "eta_seconds": eta, "busy_seconds": busy,
        "saved_seconds": saved_seconds(columns),
        "created": float(known.min()) if len(known) else None, "updated": float(known.max()) if len(known) else None,
        **_best(columns),
    }  # fmt: skip


def _state(counts: dict[str, int], ended: int, n_trials: int | None) -> str:
    if counts["running"]:
        return "running"
    if n_trials is not None and ended >= n_trials:
        return "complete"
    return "not running" if ended else "no trial has begun"


def comparable(columns: TrialColumns) -> np.ndarray[Any, Any]:
    """Where trials finished with numbers; NaN and infinity are never the best."""
    found: np.ndarray[Any, Any] = (columns.state == FINISHED) & np.isfinite(columns.values).all(axis=1)
    return found


def busy_seconds(columns: TrialColumns, now: float) -> float:
    """Seconds in which at least one trial was running: pauses of the search do not count."""
    end = np.where(np.isnan(columns.end) & (columns.state == RUNNING), now, columns.end)
    has = np.isfinite(columns.start) & np.isfinite(end)
    if not has.any():
        return 0.0
    order = np.argsort(columns.start[has], kind="stable")
    start, end = columns.start[has][order], np.maximum(columns.start[has], end[has])[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[-np.inf], reached[:-1]])
    return float(np.maximum(0.0, end - np.maximum(start, before)).sum())


def saved_seconds(columns: TrialColumns) -> float | None:
    """What pruned trials would have taken in addition, had they taken as long as finished ones."""
    took = columns.end - columns.start
    whole, pruned = took[columns.state == FINISHED], took[columns.state == PRUNED]
    whole, pruned = whole[np.isfinite(whole)], pruned[np.isfinite(pruned)]
    return float(np.maximum(0.0, whole.mean() - pruned).sum()) if len(whole) and len(pruned) else None


def signed(columns: TrialColumns) -> Floats:
    """The values such that larger ones are better."""
    signs = np.where(np.array(columns.head.directions or (True,)), 1.0, -1.0)
    better: Floats = columns.values * signs
    return better


def _best(columns: TrialColumns) -> dict[str, Any]:
    verified = {number: each for number, each in verified_trials(columns.head.attributes).items()}
    where = np.flatnonzero(comparable(columns))
    best = int(where[np.argmax(signed(columns)[where, 0])]) if len(where) else None
    chosen = _best_verified(verified, bool(columns.head.directions[0])) if columns.head.directions else None
    return {
        "best_trial": None if best is None else int(columns.number[best]),
        "best_value": None if best is None else float(columns.values[best, 0]),
        "verified_trial": None if chosen is None else chosen.number,
        "verified_value": None if chosen is None else chosen.iqm,
        "verified_interval": None if chosen is None else chosen.interval,
        "verified": [
            {"trial": each.number, "value": each.iqm, "interval": each.interval, "values": each.values}
            for each in verified.values()
        ],
    }  # fmt: skip


def _best_verified(verified: dict[int, VerifiedTrial], maximise: bool) -> VerifiedTrial | None:
    sign = 1 if maximise else -1
    known = [each for each in verified.values() if np.isfinite(each.iqm)]
    return max(known, key=lambda each: (sign * each.iqm, -each.number), default=None)


def pareto_front(columns: TrialColumns) -> list[int]:
    """The numbers of the finished trials that no other beats in every objective, from the best in the first one."""
    where = np.flatnonzero(comparable(columns))
    better = signed(columns)[where]
    order = np.lexsort(tuple(-better[:, k] for k in reversed(range(better.shape[1]))))
    where, better = where[order], better[order]
    if better.shape[1] == 2:
        most = np.concatenate([[-np.inf], np.maximum.accumulate(better[:, 1])[:-1]])
        kept = np.flatnonzero(better[:, 1] > most)
    else:
        kept = _front_of_many(better)
    return [int(each) for each in columns.number[where[kept]][:MOST_FRONT]]


def _front_of_many(better: Floats) -> np.ndarray[Any, Any]:
    """Rows that none before them beats; sorted as they are, none after them can. Equal rows are all kept."""
    kept: list[int] = []
    for place, row in enumerate(better):
        front = better[kept]
        if not len(kept) or not ((front >= row).all(axis=1) & (front != row).any(axis=1)).any():
            kept.append(place)
        if len(kept) >= MOST_FRONT:
            break
    return np.array(kept, np.intp)


def failed_trials(columns: TrialColumns, most: int) -> list[int]:
    """The ids of the latest failed trials."""
    return [int(each) for each in columns.ids[columns.state == FAILED][-most:]]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
