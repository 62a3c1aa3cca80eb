"""How the settings of a trial are chosen: Optuna's samplers, with random numbers that depend on the search's seed and
the number of the trial alone, so that a study that was interrupted draws what it would have drawn. And what stops
trials early: Optuna's pruners."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    SuccessiveHalvingPruner,
    WilcoxonPruner,
)
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from rookery.config.sections import SearchOptions
from rookery.errors import ConfigError
from rookery.studies.space.dimensions import inside
from rookery.studies.space.space import SearchSpace

T = TypeVar("T")
TRIES = 200  # draws until conditions are met
OF_THE_SAMPLER = 3  # of these; then draws are uniform: a sampler may insist on a place that is not allowed
STARTUP_TRIALS = 5  # trials that are trained to the end before any is pruned
REDUCTION = 3
SIGNIFICANCE = 0.1
SIGMA = 1 / 6  # of CMA-ES in the unit cube, at the start
FIXED_PARAMS = "fixed_params"  # Optuna's name for the parameters of an enqueued trial


def make_sampler(search: SearchOptions, space: SearchSpace) -> BaseSampler:
    if search.sampler == "grid":
        return GridOrder(space)
    makers: dict[str, Callable[[int], BaseSampler]] = {
        "tpe": lambda seed: _tpe(seed, space.is_conditional),
        "gp": lambda seed: _quiet(GPSampler, seed=seed, warn_independent_sampling=False),
        "cmaes": lambda seed: CmaSampler(seed, space),
        "random": lambda seed: RandomSampler(seed=seed),
    }
    return SpaceSampler(space, search.seed, makers[search.sampler])


def make_pruner(search: SearchOptions, steps: int) -> BasePruner:
    """Optuna's pruner of this name. `steps` is the length of a run."""
    first = max(1, steps // 10)
    if search.pruner == "median":
        return MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=first)
    if search.pruner == "asha":
        return SuccessiveHalvingPruner(min_resource=first, reduction_factor=REDUCTION)
    if search.pruner == "hyperband":
        return HyperbandPruner(min_resource=first, max_resource=steps, reduction_factor=REDUCTION)
    if search.pruner == "wilcoxon":
        return _quiet(WilcoxonPruner, p_threshold=SIGNIFICANCE)
    return NopPruner()


class SpaceSampler(BaseSampler):
    """Draws all settings of a trial at once from another sampler, again until they meet the conditions."""

    def __init__(self, space: SearchSpace, seed: int, make: Callable[[int], BaseSampler]) -> None:
        self._space, self._seed, self._make = space, seed, make

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._space.distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        if FIXED_PARAMS in trial.system_attrs:
            return {}
        seed = int(np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0])
        sampler, uniform = self._make(seed), RandomSampler(seed=seed)
        for attempt in range(TRIES):
            params = self._draw(sampler if attempt < OF_THE_SAMPLER else uniform, study, trial)
            broken = self._space.broken(self._space.settings(params))
            if broken is None:
                return params
        shown = "" if broken is None else repr(broken.text)
        raise ConfigError(
            f"`search.constraints`: {TRIES} draws from the space have not met {shown}: narrow the space instead"
        )

    def _draw(self, sampler: BaseSampler, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        joint = sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial))
        params: dict[str, Any] = {}
        settings: dict[str, Any] = {}
        for dimension in self._space.dimensions:
            if not dimension.counts(settings):
                continue
            key, distribution = dimension.key, dimension.distribution
            if distribution.single():
                param = RandomSampler(seed=0).sample_independent(study, trial, key, distribution)
            elif key in joint:
                param = joint[key]
            else:
                param = sampler.sample_independent(study, trial, key, distribution)
            params[key], settings[key] = param, dimension.from_param(param)
        return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A parameter that an enqueued trial does not give."""
        seed = np.random.SeedSequence([self._seed, trial.number, *param_name.encode()]).generate_state(1)[0]
        return RandomSampler(seed=int(seed)).sample_independent(study, trial, param_name, param_distribution)


class GridOrder(BaseSampler):
    """All settings of a grid, one after another, by the number of the trial; then again from the first."""

    def __init__(self, space: SearchSpace) -> None:
        self._space, self._grid = space, space.grid()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._space.distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        if FIXED_PARAMS in trial.system_attrs:
            return {}
        # All trials with lower numbers are there already, so that two workers cannot get the same place.
        others = study.get_trials(deepcopy=False)
        place = sum(one.number < trial.number and FIXED_PARAMS not in one.system_attrs for one in others)
        return self._grid[place % len(self._grid)]

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return RandomSampler(seed=trial.number).sample_independent(study, trial, param_name, param_distribution)


def _tpe(seed: int, conditional: bool) -> BaseSampler:
    # Joint densities of the keys that are there together; each alone finds less in single-objective studies.
    return _quiet(TPESampler, seed=seed, multivariate=True, group=conditional, constant_liar=True)


def _quiet(make: Callable[..., T], **options: Any) -> T:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return make(**options)


class CmaSampler(BaseSampler):
    """CMA-ES over the keys that are numbers in every trial; all others are drawn at random. Optuna's own sampler keeps
    its state as a pickle in the database, which we would not load; here the state is computed from finished trials."""

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

    def _optimiser(self, study: Study) -> Any:
        """After every complete generation of finished trials, in the order of their numbers."""
        from cmaes import CMA  # it imports scipy.stats, which takes a second

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


def _from_unit(found: Any, place: float) -> Any:
    low, high = (math.log(x) if found.log else x for x in (found.low, found.high))
    value = low + float(place) * (high - low)
    value = math.exp(value) if found.log else value
    return inside(found, value)
