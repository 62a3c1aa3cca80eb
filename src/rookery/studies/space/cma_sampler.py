"""CMA-ES over the numbers of a search space. Optuna's own sampler keeps its state as a pickle in the database, which we
would not load; here the state is computed from the finished trials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from cmaes import CMA
from optuna import Study
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rookery.studies.space.space import SearchSpace

SIGMA = 1 / 6  # of the unit cube, at the start


class CmaSampler(BaseSampler):
    """Draws the keys that are numbers in every trial; all others are drawn at random."""

    def __init__(self, seed: int, space: SearchSpace) -> None:
        self._seed, self._uniform = seed, RandomSampler(seed=seed)
        self._ranges = {
            one.key: one.distribution for one in space.dimensions if not one.when and _is_range(one.distribution)
        }

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._ranges

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        if len(self._ranges) < 2:  # the method is for several dimensions
            return {}
        place = self._optimiser(study).ask()
        return {key: _from_unit(found, x) for (key, found), x in zip(self._ranges.items(), place, strict=True)}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._uniform.sample_independent(study, trial, param_name, param_distribution)

    def _optimiser(self, study: Study) -> CMA:
        """After every complete generation of finished trials, in the order of their numbers."""
        size = len(self._ranges)
        optimiser = CMA(
            mean=np.full(size, 0.5), sigma=SIGMA, bounds=np.tile([0.0, 1.0], (size, 1)), seed=self._seed % 2**32
        )
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        known = [
            (np.array([_to_unit(found, one.params[key]) for key, found in self._ranges.items()]), sign * one.values[0])
            for one in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            if one.values is not None
            and math.isfinite(one.values[0])
            and all(key in one.params for key in self._ranges)
        ]
        generation = optimiser.population_size
        for first in range(0, len(known) - generation + 1, generation):
            optimiser.tell(known[first : first + generation])
        return optimiser


def _is_range(found: BaseDistribution) -> bool:
    return isinstance(found, (FloatDistribution, IntDistribution)) and not found.single()


def _to_unit(found: Any, value: float) -> float:
    low, high, value = (math.log(x) if found.log else x for x in (found.low, found.high, value))
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _from_unit(found: Any, place: float) -> float | int:
    low, high = (math.log(x) if found.log else x for x in (found.low, found.high))
    value = low + float(place) * (high - low)
    value = math.exp(value) if found.log else value
    if found.step is not None:
        value = found.low + round((value - found.low) / found.step) * found.step
    value = min(found.high, max(found.low, value))
    return round(value) if isinstance(found, IntDistribution) else value
