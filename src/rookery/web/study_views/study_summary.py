"""How a study goes and what it found, from its columns: the same figures as those of `rookery study`. And what is read
of a few trials only when somebody looks at them: attributes, runs, learning curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.studies.report.importances import MOST, ped_anova, spread
from rookery.studies.report.study_figures import (
    covered_seconds,
    failure_reasons,
    front_places,
    pace,
    saved_seconds,
    search_options,
)
from rookery.studies.storage.trial_table import FAILED, FINISHED, PRUNED, RUNNING, STATE_NAMES, Floats, TrialTable
from rookery.studies.storage.trial_view import (
    FAIL_REASON,
    FIXED_PARAMS,
    INTERVAL,
    LINEAGE,
    PARTS,
    SETTINGS,
    STUDY_CONFIG,
    State,
    best_verified,
    reason_of,
    verified_trials,
)

MOST_FRONT = 2_000  # trials of a Pareto front that are named
MOST_ASKED = 200  # trials of one request
MOST_FAILED = 500  # whose reasons are counted
LONGEST_REASON = 2_000
NOT_SHOWN = ("rookery:", FAIL_REASON, FIXED_PARAMS)  # what the keys of attributes that are shown elsewhere begin with
SPECIAL = {"INF_POS": None, "INF_NEG": None, "NAN": None}


def summary(table: TrialTable, folder: Path | None, now: float) -> dict[str, Any]:
    """The figures of a study; unknown ones are None. `now` is in seconds since 1970."""
    config = table.head.attributes.get(STUDY_CONFIG)
    config = config if isinstance(config, dict) else {}
    counts: dict[State, int] = {name: int((table.state == code).sum()) for code, name in enumerate(STATE_NAMES)}
    busy = _busy_seconds(table, now)
    n_trials, rate, eta = pace(counts, busy, search_options(config, folder))
    took = table.end - table.start
    whole, pruned = (took[(table.state == state) & np.isfinite(took)] for state in (FINISHED, PRUNED))
    known = np.concatenate([table.start, table.end])
    known = known[np.isfinite(known)]
    return {
        "world": _text(config.get("world")), "learner": _text(config.get("learner")),
        "state": _state(counts, n_trials), "counts": counts, "trials": len(table), "n_trials": n_trials,
        "maximise": list(table.head.directions), "trials_per_hour": rate, "eta_seconds": eta, "busy_seconds": busy,
        "saved_seconds": saved_seconds(whole, pruned),
        "created": float(known.min()) if len(known) else None, "updated": float(known.max()) if len(known) else None,
        **_best(table),
    }  # fmt: skip


def _state(counts: dict[State, int], n_trials: int | None) -> str:
    ended = counts["finished"] + counts["pruned"] + counts["failed"]
    if counts["running"]:
        return "running"
    if n_trials is not None and ended >= n_trials:
        return "complete"
    return "not running" if ended else "no trial has begun"


def _busy_seconds(table: TrialTable, now: float) -> float:
    """Seconds in which at least one trial was running: pauses of the search do not count."""
    end = np.where(np.isnan(table.end) & (table.state == RUNNING), now, table.end)
    has = np.isfinite(table.start) & np.isfinite(end)
    return covered_seconds(table.start[has], end[has])


def _comparable(table: TrialTable) -> np.ndarray[Any, Any]:
    """The places of trials that finished with numbers; NaN and infinity are never the best."""
    return np.flatnonzero((table.state == FINISHED) & np.isfinite(table.values).all(axis=1))


def _signed(table: TrialTable) -> Floats:
    """The values such that larger ones are better."""
    better: Floats = table.values * np.where(np.array(table.head.directions or (True,)), 1.0, -1.0)
    return better


def _best(table: TrialTable) -> dict[str, Any]:
    verified = verified_trials(table.head.attributes)
    where = _comparable(table)
    best = int(where[np.argmax(_signed(table)[where, 0])]) if len(where) else None
    chosen = best_verified(verified, table.head.directions[0]) if table.head.directions else None
    return {
        "best_trial": None if best is None else int(table.number[best]),
        "best_value": None if best is None else float(table.values[best, 0]),
        "verified_trial": None if chosen is None else chosen.number,
        "verified_value": None if chosen is None else chosen.iqm,
        "verified_interval": None if chosen is None else chosen.interval,
        "verified": [
            {"trial": each.number, "value": each.iqm, "interval": each.interval, "values": each.values}
            for each in verified.values()
        ],
    }  # fmt: skip


def pareto_front(table: TrialTable) -> list[int]:
    """The numbers of the finished trials that no other beats in every objective, from the best in the first one."""
    where = _comparable(table)
    places = front_places(_signed(table)[where], MOST_FRONT)
    return [int(each) for each in table.number[where[places]][:MOST_FRONT]]


def column_importances(table: TrialTable) -> dict[str, Any]:
    """The share of each parameter for the first objective, as `rookery study` prints it."""
    where = _comparable(table)
    where = where[np.argsort(table.values[where, 0], kind="stable")]
    where = where[spread(len(where), MOST["ped-anova"])]
    columns = {name: column[where] for name, column in table.params.items()}
    shares = ped_anova(-_signed(table)[where, 0], columns, table.distributions)
    return {"method": "ped-anova", "trials": len(where), "shares": shares}


# --- some trials ----------------------------------------------------------------------------------------------------


def details(table: TrialTable, numbers: Sequence[int], folder: Path | None, place: str) -> dict[str, Any]:
    """By number: settings, interval, the value of each part, why it failed, and the ids of its runs.

    `place` is the first part of the ids of the study's runs.
    """
    at = np.flatnonzero(np.isin(table.number, np.array(numbers[:MOST_ASKED], np.int64)))
    kept = table.attributes(table.ids[at].tolist(), strict=False).values()
    return {str(number): _one_trial(each, folder, place) for number, each in zip(table.number[at], kept, strict=True)}


def _one_trial(kept: dict[str, Any], folder: Path | None, place: str) -> dict[str, Any]:
    parts = kept.get(PARTS)
    parts = parts if isinstance(parts, dict) else {}
    reason = reason_of(kept)
    return {
        "settings": kept.get(SETTINGS),
        "interval": kept.get(INTERVAL),
        "reason": reason and reason[:LONGEST_REASON],
        "lineage": kept.get(LINEAGE),
        "parts": [_part(name, each, folder, place) for name, each in parts.items() if isinstance(each, dict)],
        "attributes": {key: value for key, value in kept.items() if not key.startswith(NOT_SHOWN)},
    }


def _part(name: str, part: dict[str, Any], folder: Path | None, place: str) -> dict[str, Any]:
    """One run of a trial; `run` is the id by which the page shows it, None if its folder is not there."""
    run = part.get("run")
    words = run.split("/") if isinstance(run, str) else []
    is_there = folder is not None and len(words) == 2 and words[0] == "runs" and (folder / "runs" / words[1]).is_dir()
    shown = {key: part.get(key) for key in ("value", "seconds", "steps", "reason")}
    return {"name": name, **shown, "run": f"{place}/{words[1]}" if is_there else None}


def running_runs(folder: Path | None, place: str, number: int, known: Sequence[str]) -> list[str]:
    """Ids of the runs of a trial that has not recorded them yet."""
    runs = sorted((folder / "runs").glob(f"trial-{number:05d}-*")) if folder is not None else []
    return [f"{place}/{run.name}" for run in runs if f"{place}/{run.name}" not in known]


def failures(table: TrialTable) -> list[tuple[str, int]]:
    """The most frequent reasons of the latest failures."""
    kept = table.attributes(table.ids[table.state == FAILED][-MOST_FAILED:].tolist(), strict=False)
    return list(failure_reasons(map(reason_of, kept.values())))


def learning_curves(table: TrialTable, most: int) -> dict[str, Any]:
    """Intermediate values of running trials, of the best and of the latest: at most so many trials."""
    chosen = _curve_trials(table, most)
    rows: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    for each, step, value, kind in table.source.intermediate(table.ids[chosen].tolist()):
        rows[each].append((int(step), SPECIAL.get(kind, value)))
    curves = []
    for k in chosen:
        found = rows.get(int(table.ids[k]))
        if found:
            steps, values = zip(*found, strict=True)
            state = STATE_NAMES[table.state[k]]
            curves.append({"trial": int(table.number[k]), "state": state, "steps": steps, "values": values})
    return {"curves": curves, "trials": len(table)}


def _curve_trials(table: TrialTable, most: int) -> list[int]:
    """Places of the trials: a quarter for the best, the rest for the latest; all if there are few."""
    good = _comparable(table)
    best = good[np.argsort(-_signed(table)[good, 0], kind="stable")][: most // 4]
    begun = np.flatnonzero(np.isfinite(table.start))[::-1][:most]
    return sorted(list(dict.fromkeys([*best.tolist(), *begun.tolist()]))[:most])


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
