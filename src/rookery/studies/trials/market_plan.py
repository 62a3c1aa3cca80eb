"""How a trial of a market world is judged: by combinatorial purged cross-validation.

A trial is one run per fold. Each run trains on the train windows of its fold, and its value is the Sharpe ratio of its
agent less that of holding on the fold's test windows. No fold has a bar of the last segment, the split "test".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.config.sections import SearchOptions
from rookery.errors import OptionError
from rookery.studies.trials.market_folds import market_folds, refuse_own_splits
from rookery.studies.trials.market_value import sharpe_above_hold
from rookery.studies.trials.pruning import BY_EVALUATIONS
from rookery.studies.trials.trial_plan import TrialPart, Values, part_of
from rookery.training.evaluation.win_record import interval_of
from rookery.training.storage.run_dir import RunDir

SPREAD_WEIGHT = 0.1  # of the standard deviation over folds, which is subtracted
HELD_OUT = 1_000  # added to the first seed of a trial: the first seed of its verification
# A report at the end of a run would play the last segment, and nobody looks at the plots of thousands of runs.
NO_REPORT = {"report": False, "plot": False, "tensorboard": False, "video": False}
NEVER = 10**12  # steps: a run that evaluates so rarely does so once, at its end


class CrossValidationPlan:
    """Trials of market worlds: one part per fold; verified with held-out seeds on the split "validation"."""

    def __init__(self, search: SearchOptions) -> None:
        if search.pruner in BY_EVALUATIONS:
            raise OptionError(
                f'search.pruner = "{search.pruner}" compares evaluations during a run, which are on the bars that a '
                'fold trains on: use "wilcoxon", which compares folds, or "none"'
            )
        self.search = search

    def first_parts(self, config: RunConfig) -> list[TrialPart]:
        """One run per fold, each with a seed of its own. Evaluations stay inside the windows that train."""
        refuse_own_splits(config)
        splits = [fold.train.tolist() for fold in market_folds(config, self.search)]
        return [_part(config, f"fold-{k}", config.seed + k, split, split) for k, split in enumerate(splits)]

    def more_parts(self, config: RunConfig, values: Values, others: Sequence[Values]) -> list[TrialPart]:
        """None: all trials have the same folds, so that they can be compared fold by fold."""
        return []

    def verify_parts(self, config: RunConfig) -> list[TrialPart]:
        """Runs with held-out seeds on the whole split "train", to be judged on "validation"."""
        refuse_own_splits(config)
        first = config.seed + HELD_OUT
        seeds = range(first, first + self.search.verify_seeds)
        return [_part(config, f"verify-{seed}", seed, "train", "validation") for seed in seeds]

    def value(self, part: TrialPart, run: RunDir) -> float:
        """The Sharpe ratio a year above holding, on the bars of the fold's test or on the split "validation"."""
        return sharpe_above_hold(run, self.tested(part))

    def tested(self, part: TrialPart) -> Any:
        """The bars that a part is judged on: a split, as the world takes it."""
        kind, _, number = part.name.partition("-")
        if kind == "verify":
            return "validation"
        return market_folds(part.config, self.search)[int(number)].test.tolist()

    def total(self, values: Values) -> float:
        """The mean over folds less a tenth of the standard deviation: one fold that went well is no result."""
        found = list(values.values())
        return float(np.mean(found) - SPREAD_WEIGHT * np.std(found))

    def interval(self, values: Values) -> tuple[float, float]:
        """About 95 % for the total. Folds share bars, so that the true one is wider."""
        found: Sequence[float] = list(values.values())
        low, high = interval_of(found)
        less = SPREAD_WEIGHT * float(np.std(found))
        return low - less, high - less


def _part(config: RunConfig, name: str, seed: int, split: Any, evaluation_split: Any) -> TrialPart:
    """A run on these bars. It evaluates once, at its end, unless the configuration says how often: then the best
    checkpoint is chosen by these evaluations."""
    changes: dict[str, Any] = {
        "world_options": {**config.world_options, "split": split, "evaluation_split": evaluation_split},
        "monitor": config.monitor.model_copy(update=NO_REPORT),
        "seed": seed,
    }
    if config.evaluation.every is None and config.evaluation.every_episodes is None:
        rarely = {"every": NEVER, "max_episodes": config.evaluation.max_episodes or config.evaluation.episodes}
        changes["evaluation"] = config.evaluation.model_copy(update=rarely)
    return part_of(config, name, **changes)
