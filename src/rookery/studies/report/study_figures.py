"""How a study goes: how many trials, how fast, how long it will take, what failures and pruning did."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from rookery.files import load_toml, read_plain
from rookery.studies.storage.study_view import StudyView, TrialView
from rookery.studies.storage.trial_table import Floats
from rookery.studies.storage.trial_view import State

STATES: tuple[State, ...] = ("finished", "running", "failed", "pruned", "waiting")
ENDED: tuple[State, ...] = ("finished", "pruned", "failed")
REASONS = 3  # of failures that are shown
LONGEST_REASON = 120
LARGEST = 16 << 20  # bytes of config.toml


@dataclass(frozen=True)
class StudyFigures:
    """What can be counted and measured of a study at one moment."""

    counts: dict[State, int]
    n_trials: int | None  # that the study is to have; None if that is not known
    trials_per_hour: float | None
    eta_seconds: float | None  # None unless trials are running
    busy_seconds: float  # in which at least one trial was running
    trial_seconds: float  # over all trials: larger than busy_seconds with several workers
    timeout_seconds: float | None  # that the search may take
    steps: int
    saved_seconds: float | None  # by pruning; None if nothing was pruned
    failures: tuple[tuple[str, int], ...]  # the most frequent reasons, and how often

    @property
    def ended(self) -> int:
        return sum(self.counts[state] for state in ENDED)

    @property
    def begun(self) -> int:
        return self.ended + self.counts["running"]

    @property
    def is_complete(self) -> bool:
        """Whether all trials that the study is to have came to their end."""
        return self.n_trials is not None and self.ended >= self.n_trials and not self.counts["running"]


def study_figures(study: StudyView, now: datetime | None = None) -> StudyFigures:
    """The figures of a study. Pauses of the search do not count as time."""
    found = Counter(trial.state for trial in study.trials)
    counts = {state: found[state] for state in STATES}
    busy = busy_seconds(study.trials, now or datetime.now())
    search = search_options(study.config, study.folder)
    n_trials, rate, eta = pace(counts, busy, search)
    timeout = search.get("timeout")
    whole, pruned = ([each.seconds for each in study.of_state(state) if each.seconds is not None]
                     for state in ("finished", "pruned"))  # fmt: skip
    return StudyFigures(
        counts=counts,
        n_trials=n_trials,
        trials_per_hour=rate,
        eta_seconds=eta,
        busy_seconds=busy,
        trial_seconds=sum(trial.seconds or 0.0 for trial in study.trials),
        timeout_seconds=float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None,
        steps=sum(trial.steps or 0 for trial in study.trials),
        saved_seconds=saved_seconds(np.array(whole), np.array(pruned)),
        failures=failure_reasons(trial.reason for trial in study.of_state("failed")),
    )


def pace(
    counts: Mapping[State, int], busy: float, search: Mapping[str, Any]
) -> tuple[int | None, float | None, float | None]:
    """The trials that a study is to have, the trials an hour, and the seconds that are left; None if not known."""
    n_trials = search.get("n_trials")
    n_trials = n_trials if isinstance(n_trials, int) and n_trials > 0 else None
    ended = sum(counts[state] for state in ENDED)
    rate = 3600 * ended / busy if ended and busy > 0 else None
    eta = 3600 * max(0, n_trials - ended) / rate if rate and n_trials and counts["running"] else None
    return n_trials, rate, eta


def search_options(config: Mapping[str, Any] | None, folder: Path | None) -> dict[str, Any]:
    """The section `search` of the latest search of a study; {} for studies of others.

    The study's attributes have that of the first search. A later one may have more trials, and writes config.toml
    again.
    """
    first, latest = (config or {}).get("search"), None
    with suppress(OSError, ValueError):
        if folder is not None:
            latest = load_toml(read_plain(folder / "config.toml", LARGEST).decode()).get("search")
    return {**(first if isinstance(first, dict) else {}), **(latest if isinstance(latest, dict) else {})}


def busy_seconds(trials: Iterable[TrialView], now: datetime) -> float:
    """Seconds in which at least one trial was running."""
    spans = [
        (trial.started, trial.ended or now)
        for trial in trials
        if trial.started is not None and (trial.ended is not None or trial.state == "running")
    ]
    moments = np.array(spans, "datetime64[us]").reshape(-1, 2).astype(np.int64) / 1e6
    return covered_seconds(moments[:, 0], moments[:, 1])


def covered_seconds(start: Floats, end: Floats) -> float:
    """Seconds that at least one of these spans covers."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum(start, end)[order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(end)[:-1]])[: len(end)]
    return float(np.maximum(0.0, end - np.maximum(start, before)).sum())


def saved_seconds(whole: Floats, pruned: Floats) -> float | None:
    """What pruned trials would have taken in addition, had they taken as long as finished ones; None without any."""
    return float(np.maximum(0.0, whole.mean() - pruned).sum()) if len(whole) and len(pruned) else None


def failure_reasons(failed: Iterable[str | None]) -> tuple[tuple[str, int], ...]:
    """The most frequent reasons, the first line of each."""
    lines = [(reason or "no reason was recorded").strip().partition("\n")[0] for reason in failed]
    return tuple(Counter(line[:LONGEST_REASON] for line in lines).most_common(REASONS))


def pareto_front(study: StudyView) -> list[TrialView]:
    """The finished trials that no other beats in every objective, by the first objective from its best."""
    known = study.comparable
    signs = np.where(study.directions, 1.0, -1.0)
    better = np.array([trial.values for trial in known]).reshape(len(known), len(signs)) * signs
    return [known[place] for place in front_places(better)]


def front_places(better: Floats, most: float = math.inf) -> list[int]:
    """Places of the rows that no other beats in every column, at most so many; larger values are better."""
    order = np.lexsort(tuple(-better[:, k] for k in reversed(range(better.shape[1]))))
    better = better[order]
    if better.shape[1] == 2:
        reached = np.concatenate([[-np.inf], np.maximum.accumulate(better[:, 1])[:-1]])[: len(better)]
        return [int(place) for place in order[better[:, 1] > reached]]
    kept: list[int] = []
    for place, row in enumerate(better):  # sorted as they are, none after a row beats it; equal rows are all kept
        front = better[kept]
        if not ((front >= row).all(axis=1) & (front != row).any(axis=1)).any():
            kept.append(place)
        if len(kept) >= most:
            break
    return [int(order[place]) for place in kept]


def top_trials(study: StudyView, count: int) -> list[TrialView]:
    """The best trials by value, the verified ones first."""
    sign = 1 if study.maximise else -1

    def place(trial: TrialView) -> tuple[bool, float, int]:
        verified = study.verified.get(trial.number)
        held_out = verified is not None and math.isfinite(verified.iqm)
        value = verified.iqm if verified is not None and held_out else trial.values[0]
        return (not held_out, -sign * value, trial.number)

    return sorted(study.comparable, key=place)[:count]
