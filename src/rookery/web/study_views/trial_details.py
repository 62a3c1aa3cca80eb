"""What is read of a few trials only when somebody looks at them: attributes, runs, learning curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.studies.report.study_figures import failure_reasons
from rookery.studies.storage.stored_trials import FAIL_REASON, StoredTexts
from rookery.studies.storage.trial_attributes import INTERVAL, LINEAGE, PARTS, REASON, SETTINGS
from rookery.studies.storage.trial_view import TrialView
from rookery.web.study_views.study_summary import comparable, failed_trials, signed
from rookery.web.study_views.trial_columns import STATE_NAMES, TrialColumns

MOST_ASKED = 200  # trials of one request
MOST_FAILED = 500  # whose reasons are counted
LONGEST_REASON = 2_000
SPECIAL = {"INF_POS": None, "INF_NEG": None, "NAN": None}


def details(columns: TrialColumns, numbers: Sequence[int], folder: Path | None, place: str) -> dict[str, Any]:
    """By number: settings, interval, the value of each part, why it failed, and the ids of its runs.

    `place` is the first part of the ids of the study's runs.
    """
    at = np.flatnonzero(np.isin(columns.number, np.array(numbers[:MOST_ASKED], np.int64)))
    kept = _attributes(columns, [int(each) for each in columns.ids[at]])
    return {
        str(columns.number[k]): _one_trial(kept[int(columns.ids[k])], folder, place, int(columns.number[k])) for k in at
    }


def _one_trial(kept: dict[str, Any], folder: Path | None, place: str, number: int) -> dict[str, Any]:
    parts = kept.get(PARTS)
    parts = parts if isinstance(parts, dict) else {}
    reason = kept.get(REASON) or kept.get(FAIL_REASON)
    ours = ("rookery:", FAIL_REASON)
    return {
        "settings": kept.get(SETTINGS),
        "interval": kept.get(INTERVAL),
        "reason": None if reason is None else str(reason)[:LONGEST_REASON],
        "lineage": kept.get(LINEAGE),
        "parts": [_part(name, each, folder, place, number) for name, each in parts.items() if isinstance(each, dict)],
        "attributes": {key: value for key, value in kept.items() if not key.startswith(ours)},
    }


def _part(name: str, part: dict[str, Any], folder: Path | None, place: str, number: int) -> dict[str, Any]:
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


def failures(columns: TrialColumns) -> list[tuple[str, int]]:
    """The most frequent reasons of the latest failures."""
    ids = failed_trials(columns, MOST_FAILED)
    kept = _attributes(columns, ids)
    reasons = [kept[each].get(REASON) or kept[each].get(FAIL_REASON) for each in ids]
    return list(failure_reasons(TrialView(0, "failed", reason=str(each) if each else None) for each in reasons))


def learning_curves(columns: TrialColumns, most: int) -> dict[str, Any]:
    """Intermediate values of running trials, of the best and of the latest: at most so many trials."""
    chosen = _curve_trials(columns, most)
    rows: dict[int, list[tuple[int, float | None]]] = defaultdict(list)
    for each, step, value, kind in columns.source.intermediate([int(each) for each in columns.ids[chosen]]):
        rows[each].append((int(step), SPECIAL.get(kind, value)))
    curves = []
    for k in chosen:
        found = rows.get(int(columns.ids[k]))
        if found:
            steps, values = zip(*found, strict=True)
            state = STATE_NAMES[columns.state[k]]
            curves.append({"trial": int(columns.number[k]), "state": state, "steps": steps, "values": values})
    return {"curves": curves, "trials": len(columns)}


def _curve_trials(columns: TrialColumns, most: int) -> list[int]:
    """Places of the trials: a quarter for the best, the rest for the latest; all if there are few."""
    good = np.flatnonzero(comparable(columns))
    best = good[np.argsort(-signed(columns)[good, 0], kind="stable")][: most // 4]
    begun = np.flatnonzero(np.isfinite(columns.start))[::-1][:most]
    chosen = list(dict.fromkeys([*(int(k) for k in best), *(int(k) for k in begun)]))[:most]
    return sorted(chosen)


def _attributes(columns: TrialColumns, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    kept: dict[int, dict[str, Any]] = {each: {} for each in ids}
    texts = StoredTexts()
    for each, key, text in columns.source.attributes(ids):
        try:
            kept[each][str(key)] = texts.decoded(text)
        except (ValueError, TypeError, RecursionError):
            kept[each][str(key)] = None  # cut off by the database, or damaged
    return kept
