"""What a trial consists of: one or several runs, and how their values become the value of the trial. Trials are judged
over seeds, or by cross-validation in market worlds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rookery.config import RunConfig
from rookery.config.sections import SearchOptions
from rookery.lazy import load_object
from rookery.monitor.statistics import bootstrap_interval, interquartile_mean
from rookery.training.storage.run_dir import RunDir
from rookery.worlds import registry
from rookery.worlds.built_in_worlds import BACKTEST

CROSS_VALIDATION = "rookery.studies.trials.market_plan:CrossValidationPlan"
TRIAL_NAME = "trial-{number:05d}"
Values = Mapping[str, float]  # of the parts of one trial, by the part's name, in the order in which they were trained
FEW = 4  # degrees of freedom of the pooled deviation
QUANTILE = 1.96  # a trial that equals the best is given up once in 40 times
HELD_OUT = 1_000  # added to the first tuning seed: the first seed of a verification
# Seeds of evaluations: all trials play the same episodes, and verifications others.
TUNING_EPISODES, HELD_OUT_EPISODES = 10_000, 20_000
EPISODES = 20  # of the last evaluation, and up to four times as many while its mean is uncertain
SUMMARY_KEYS = {"evaluation": "eval/return", "best_evaluation": "eval/best_return"}
SEVERAL = 2  # values, for an interval


def plan_for(config: RunConfig) -> TrialPlan:
    """The plan of a study: by cross-validation in market worlds, else by seeds. `config` is that of the study, with its
    section `search`."""
    if metric_of(config) == "sharpe_difference":
        return load_object(CROSS_VALIDATION)(config.search)
    return SeedPlan(config.search)


def metric_of(config: RunConfig) -> str:
    """The value of a run: what `search.metric` says, or what suits the world."""
    if config.search.metric != "auto":
        return config.search.metric
    return "sharpe_difference" if is_market(config) else "evaluation"


def is_market(config: RunConfig) -> bool:
    """Whether the world trades on bars, so that its trials are cross-validated."""
    spec = registry.get(config.world) or registry.by_source(config.world)
    return spec is not None and spec.report == BACKTEST


@dataclass(frozen=True)
class TrialPart:
    """One run of a trial, such as that of one seed or one fold."""

    name: str  # "seed-0", "fold-3", "verify-1000"
    config: RunConfig  # complete; its `name` and `runs_dir` are those of the run
    run_name: str  # "trial-00012-seed-0"


class TrialPlan(Protocol):
    """Which runs a trial has, and what they are worth. Larger values are better.

    The `config` of each method is that of the trial, with its settings; its `name` is that of the trial, such as
    "trial-00012", and its `runs_dir` the folder of the study's runs. `part_of` makes a part of it.
    """

    def first_parts(self, config: RunConfig) -> list[TrialPart]:
        """The runs that every trial gets. They may be trained in any order."""

    def more_parts(self, config: RunConfig, values: Values, others: Sequence[Values]) -> list[TrialPart]:
        """Further runs, once those so far have these values; none if the trial is complete. `others` are the values of
        the finished trials, by their numbers. The answer depends on these arguments alone."""

    def verify_parts(self, config: RunConfig) -> list[TrialPart]:
        """The runs with held-out seeds (or folds) by which a trial is verified."""

    def value(self, part: TrialPart, run: RunDir) -> float:
        """The value of a run that has ended. NaN is a failure."""

    def total(self, values: Values) -> float:
        """The value of a trial, or of its verification."""

    def interval(self, values: Values) -> tuple[float, float] | None:
        """The 95 % confidence interval of the total; None if there is too little to say."""


def trial_name(number: int) -> str:
    """
    >>> trial_name(12)
    'trial-00012'
    """
    return TRIAL_NAME.format(number=number)


def part_of(config: RunConfig, name: str, **changes: Any) -> TrialPart:
    """The part of this name of the trial that `config` is of; `changes` are other values of keys, such as `seed=1`."""
    run_name = f"{config.name}-{name}"
    return TrialPart(name, config.model_copy(update={**changes, "name": run_name}), run_name)


def may_be_best(values: Sequence[float], others: Sequence[Sequence[float]], seeds: int) -> bool:
    """Racing: whether a trial with these values may still be better than the best of the others, so that another seed
    is worth its time. The rule, for the values x1 ... xn, and the best of the trials that have all seeds, with m values
    of mean B:

        mean(x1 ... xn) + 1.96 * s * sqrt(1/n + 1/m) >= B

    s is the standard deviation between the seeds of one trial, pooled over all trials with two seeds or more, also this
    one. While less than FEW degrees of freedom are known, every trial gets its next seed.

    Args:
        values: Of the trial's seeds so far.
        others: Of the seeds of the finished trials.
        seeds: How many seeds a complete trial has.

    Example:
        >>> known = [[480.0, 500.0, 490.0], [300.0, 320.0, 290.0]]
        >>> may_be_best([485.0], known, 3), may_be_best([310.0], known, 3), may_be_best([310.0], [], 3)
        (True, False, True)
    """
    complete = [other for other in others if len(other) >= seeds]
    spread = pooled_deviation([*others, values])
    if not complete or spread is None:
        return True
    best = max(complete, key=lambda other: (float(np.mean(other)), -len(other)))
    margin = QUANTILE * spread * math.sqrt(1 / len(values) + 1 / len(best))
    return float(np.mean(values)) + margin >= float(np.mean(best))


def pooled_deviation(trials: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation within trials; None if too few trials have several values."""
    repeated = [np.asarray(values, dtype=float) for values in trials if len(values) > 1]
    degrees = sum(len(values) - 1 for values in repeated)
    if degrees < FEW:
        return None
    return math.sqrt(sum(float(((values - values.mean()) ** 2).sum()) for values in repeated) / degrees)


class SeedPlan:
    """Each part is a run with a seed of its own: `seed`, `seed + 1` and so on of the configuration for tuning, and
    `seed + 1000` and so on for verification."""

    def __init__(self, search: SearchOptions) -> None:
        self.search = search
        self.metric = "evaluation" if search.metric == "auto" else search.metric

    def first_parts(self, config: RunConfig) -> list[TrialPart]:
        count = min(self.search.first_seeds, self.search.seeds)
        return [self._tuning_part(config, k) for k in range(count)]

    def more_parts(self, config: RunConfig, values: Values, others: Sequence[Values]) -> list[TrialPart]:
        """The next seed, while the trial may still be the best: see `may_be_best`."""
        if len(values) >= self.search.seeds:
            return []
        known = [list(other.values()) for other in others]
        if not may_be_best(list(values.values()), known, self.search.seeds):
            return []
        return [self._tuning_part(config, len(values))]

    def verify_parts(self, config: RunConfig) -> list[TrialPart]:
        first = config.seed + HELD_OUT
        return [
            part_of(config, f"verify-{seed}", seed=seed, evaluation=self._evaluation(config, HELD_OUT_EPISODES))
            for seed in range(first, first + self.search.verify_seeds)
        ]

    def value(self, part: TrialPart, run: RunDir) -> float:
        """The mean return of the run's last evaluation, or of its best one."""
        found = (run.read_summary() or {}).get(SUMMARY_KEYS[self.metric])
        return float(found) if isinstance(found, int | float) else math.nan

    def total(self, values: Values) -> float:
        return float(interquartile_mean(list(values.values())))

    def interval(self, values: Values) -> tuple[float, float] | None:
        if len(values) < SEVERAL:
            return None
        low, high = bootstrap_interval(list(values.values()))
        return float(low), float(high)

    def _tuning_part(self, config: RunConfig, k: int) -> TrialPart:
        seed = config.seed + k
        return part_of(config, f"seed-{seed}", seed=seed, evaluation=self._evaluation(config, TUNING_EPISODES))

    def _evaluation(self, config: RunConfig, seed: int) -> Any:
        """How runs are evaluated, where the user does not say it: in many episodes, the same for all trials. Earlier
        evaluations take most of the time of a short run, and only some pruners and the best evaluation need them."""
        given = config.evaluation.model_fields_set
        usual: Mapping[str, Any] = {"seed": seed, "episodes": max(EPISODES, config.evaluation.episodes)}
        often = self.metric == "best_evaluation" or self.search.pruner in ("median", "asha", "hyperband")
        if not often and config.evaluation.stop_at is None and not given & {"every", "every_episodes"}:
            usual = {**usual, "every": config.steps}
        changes = {key: value for key, value in usual.items() if key not in given}
        return config.evaluation.model_copy(update=changes)
