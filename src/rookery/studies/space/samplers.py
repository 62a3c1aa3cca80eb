"""How the settings of a trial are chosen: Optuna's samplers, with random numbers that depend on the search's seed and
the number of the trial alone, so that a study that was interrupted draws what it would have drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from rookery.config.sections import SearchOptions
from rookery.errors import ConfigError
from rookery.studies.space.space import SearchSpace

TRIES = 200  # draws until conditions are met
OF_THE_SAMPLER = 3  # of these; then draws are uniform: a sampler may insist on a place that is not allowed
FIXED_PARAMS = "fixed_params"  # Optuna's name for the parameters of an enqueued trial


def make_sampler(search: SearchOptions, space: SearchSpace) -> BaseSampler:
    """The sampler of a search."""
    if search.sampler == "grid":
        return GridOrder(space)
    makers: dict[str, Callable[[int], BaseSampler]] = {
        "tpe": lambda seed: _tpe(seed, space.is_conditional),
        "gp": lambda seed: _quiet(GPSampler, seed=seed, warn_independent_sampling=False),
        "cmaes": lambda seed: _cma(seed, space),
        "random": lambda seed: RandomSampler(seed=seed),
    }
    return SpaceSampler(space, search.seed, makers[search.sampler])


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

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        pass


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


def _cma(seed: int, space: SearchSpace) -> BaseSampler:
    from rookery.studies.space.cma_sampler import CmaSampler  # its library imports scipy.stats, which takes a second

    return CmaSampler(seed, space)


def _quiet(make: Callable[..., BaseSampler], **options: Any) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return make(**options)
