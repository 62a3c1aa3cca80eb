"""Trials over seeds: the value is the interquartile mean over tuning seeds, and held-out seeds verify it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rookery.config import RunConfig
from rookery.config.sections import SearchOptions
from rookery.monitor.statistics import bootstrap_interval, interquartile_mean
from rookery.studies.trials.racing import may_be_best
from rookery.studies.trials.trial_plan import TrialPart, Values, part_of
from rookery.training.storage.run_dir import RunDir

HELD_OUT = 1_000  # added to the first tuning seed: the first seed of a verification
# Seeds of evaluations: all trials play the same episodes, and verifications others.
TUNING_EPISODES, HELD_OUT_EPISODES = 10_000, 20_000
EPISODES = 20  # of the last evaluation, and up to four times as many while its mean is uncertain
SUMMARY_KEYS = {"evaluation": "eval/return", "best_evaluation": "eval/best_return"}
SEVERAL = 2  # values, for an interval


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
        """The next seed, while the trial may still be the best: see `racing`."""
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
