"""How a study goes: how many trials, how fast, how long it will take, what failures and pruning did."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rookery.files import load_toml, read_plain
from rookery.studies.storage.stored_trials import State
from rookery.studies.storage.study_view import StudyView, TrialView

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
    now = now or datetime.now()
    found = Counter(trial.state for trial in study.trials)
    counts = {state: found[state] for state in STATES}
    busy = busy_seconds(study.trials, now)
    ended = sum(counts[state] for state in ENDED)
    rate = 3600 * ended / busy if ended and busy > 0 else None
    search = search_options(study)
    n_trials, timeout = search.get("n_trials"), search.get("timeout")
    n_trials = n_trials if isinstance(n_trials, int) and n_trials > 0 else None
    timeout = float(timeout) if isinstance(timeout, int | float) and timeout > 0 else None
    eta = None
    if rate and n_trials and counts["running"]:
        eta = 3600 * max(0, n_trials - ended) / rate
    return StudyFigures(
        counts=counts,
        n_trials=n_trials,
        trials_per_hour=rate,
        eta_seconds=eta,
        busy_seconds=busy,
        trial_seconds=sum(trial.seconds or 0.0 for trial in study.trials),
        timeout_seconds=timeout,
        steps=sum(trial.steps or 0 for trial in study.trials),
        saved_seconds=saved_by_pruning(study.trials),
        failures=failure_reasons(study.of_state("failed")),
    )


def search_options(study: StudyView) -> dict[str, Any]:
    """The section `search` of the latest search of the study; {} for studies of others.

    The study's attributes have that of the first search. A later one may have more trials, and writes config.toml anew.
    """
    first, latest = (study.config or {}).get("search"), None
    with suppress(OSError, ValueError):
        if study.folder is not None:
            latest = load_toml(read_plain(study.folder / "config.toml", LARGEST).decode()).get("search")
    return {**(first if isinstance(first, dict) else {}), **(latest if isinstance(latest, dict) else {})}


def busy_seconds(trials: Iterable[TrialView], now: datetime) -> float:
    """Seconds in which at least one trial was running."""
    spans = sorted(
        (trial.started, max(trial.started, trial.ended or now))
        for trial in trials
        if trial.started is not None and (trial.ended is not None or trial.state == "running")
    )
    total, reached = 0.0, datetime.min
    for start, end in spans:
        if end > reached:
            total += (end - max(start, reached)).total_seconds()
            reached = end
    return total


def saved_by_pruning(trials: Sequence[TrialView]) -> float | None:
    """Seconds that pruned trials would have taken in addition, if they had taken as long as finished ones."""
    pruned = [trial.seconds for trial in trials if trial.state == "pruned" and trial.seconds is not None]
    whole = [trial.seconds for trial in trials if trial.state == "finished" and trial.seconds is not None]
    if not pruned or not whole:
        return None
    usual = statistics.fmean(whole)
    return sum(max(0.0, usual - seconds) for seconds in pruned)


def failure_reasons(failed: Iterable[TrialView]) -> tuple[tuple[str, int], ...]:
    """The most frequent reasons, the first line of each."""
    lines = [(trial.reason or "no reason was recorded").strip().partition("\n")[0] for trial in failed]
    return tuple(Counter(line[:LONGEST_REASON] for line in lines).most_common(REASONS))


def pareto_front(study: StudyView) -> list[TrialView]:
    """The finished trials that no other beats in every objective, by the first objective from its best."""
    signs = [1 if maximised else -1 for maximised in study.directions]
    known = [(tuple(s * v for s, v in zip(signs, t.values, strict=True)), t) for t in study.trials if t.is_comparable]
    known.sort(key=lambda pair: pair[0], reverse=True)
    if len(signs) == 2:
        front, most = [], -math.inf
        for values, trial in known:
            if values[1] > most:
                front.append(trial)
                most = values[1]
        return front
    return [trial for values, trial in known if not any(_beats(other, values) for other, _ in known)]


def _beats(other: tuple[float, ...], values: tuple[float, ...]) -> bool:
    return other != values and all(a >= b for a, b in zip(other, values, strict=True))


def top_trials(study: StudyView, count: int) -> list[TrialView]:
    """The best trials by value, the verified ones first."""
    sign = 1 if study.maximise else -1
    known = [trial for trial in study.trials if trial.is_comparable]

    def place(trial: TrialView) -> tuple[bool, float, int]:
        verified = study.verified.get(trial.number)
        held_out = verified is not None and math.isfinite(verified.iqm)
        value = verified.iqm if verified is not None and held_out else trial.values[0]
        return (not held_out, -sign * value, trial.number)

    return sorted(known, key=place)[:count]
