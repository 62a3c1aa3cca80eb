"""What a search varies: dimensions by key of the configuration, conditions between them, and the settings to try
first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from rookery.config import RunConfig
from rookery.config.fields import closest_keys, fields, sections
from rookery.config.layers import merge, nested
from rookery.config.validation import resolve
from rookery.console import join_or
from rookery.errors import ConfigError
from rookery.learners.registry import specs
from rookery.studies.space.default_spaces import default_space
from rookery.studies.space.dimensions import Constraint, Dimension, flat, inside, parse_dimension

__all__ = ["SearchSpace", "with_settings"]

LARGEST_GRID = 100_000
SECTIONS = (*sections(), "world_options")
FIXED = ("world", "steps", "episodes", "seed", "name", "runs_dir", "callbacks", "tables", "init_from")
FIXED_SECTIONS = ("search", "monitor", "checkpoints", "evaluation", "league")


class SearchSpace:
    """The dimensions of a search, and the conditions on them.

    Example:
        >>> varied = {"space": {"ppo.clip": {"uniform": [0.1, 0.3]}}}
        >>> config = RunConfig(world="CartPole-v1", learner="ppo", search=varied)
        >>> space = SearchSpace.of(config)
        >>> space.first_trials(config)
        [{'ppo.clip': 0.2}]
    """

    def __init__(self, dimensions: Sequence[Dimension], constraints: Sequence[Constraint], base: RunConfig) -> None:
        self.dimensions = _in_order(dimensions)
        self.constraints = tuple(constraints)
        self._base = {key: value_at(base, key) for one in constraints for key in one.keys}

    @classmethod
    def of(cls, config: RunConfig) -> SearchSpace:
        """The space of a configuration whose learner is known: its own, or one that suits its world and learner.

        Raises:
            ConfigError: A key cannot vary, a value is invalid, or conditions contradict each other.
        """
        given = config.search.space or default_space(config)
        dimensions = [parse_dimension(key, spec) for key, spec in flat_space(given).items()]
        dimensions = of_learners(dimensions, config)
        for dimension in dimensions:
            check(dimension, dimensions, config)
        space = cls(dimensions, [Constraint(text) for text in config.search.constraints], config)
        for constraint in space.constraints:
            for key in constraint.keys:
                check_key(key, "search.constraints")
        return space

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that vary."""
        return tuple(dimension.key for dimension in self.dimensions)

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna's distribution of each key."""
        return {dimension.key: dimension.distribution for dimension in self.dimensions}

    @property
    def is_conditional(self) -> bool:
        """Whether some keys count beside certain values of others only."""
        return any(dimension.when for dimension in self.dimensions)

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """The settings of a trial, by key of the configuration."""
        settings: dict[str, Any] = {}
        for dimension in self.dimensions:
            if dimension.counts(settings):
                param = trial._suggest(dimension.key, dimension.distribution)  # the public ones take no distribution
                settings[dimension.key] = dimension.from_param(param)
        return settings

    def settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that Optuna's parameters stand for; keys of other studies stay as they are."""
        known = {dimension.key: dimension for dimension in self.dimensions}
        return {key: known[key].from_param(value) if key in known else value for key, value in params.items()}

    def broken(self, settings: Mapping[str, Any]) -> Constraint | None:
        """The first condition that settings do not meet."""
        values = {**self._base, **settings}
        return next((one for one in self.constraints if not one.holds(values)), None)

    def first_trials(self, config: RunConfig) -> list[dict[str, Any]]:
        """Parameters to try first: the configuration's own settings, then those of `search.enqueue`. A number outside
        of its range is moved to the nearest end; the user's own settings that are not a choice are skipped."""
        own = {key: value_at(config, key) for key in self.keys}
        wanted = [self._enqueued(own, own=True)] if config.search.sampler != "grid" else []
        wanted += [self._enqueued({**own, **flat(one)}, own=False) for one in config.search.enqueue]
        found: list[dict[str, Any]] = []
        for params in wanted:
            if params is not None and params not in found:
                found.append(params)
        return found

    def _enqueued(self, values: Mapping[str, Any], own: bool) -> dict[str, Any] | None:
        unknown = [key for key in values if key not in self.keys]
        if unknown:
            raise ConfigError(f"`search.enqueue`: `{unknown[0]}` does not vary in this search; {_varies(self.keys)}")
        params: dict[str, Any] = {}
        settings: dict[str, Any] = {}
        for dimension in self.dimensions:
            if not dimension.counts(settings):
                continue
            value = _nearest(dimension, values[dimension.key], own)
            if value is None:
                return None
            settings[dimension.key] = dimension.from_param(value)
            params[dimension.key] = value
        broken = self.broken(settings)
        if broken is not None and not own:
            raise ConfigError(f"`search.enqueue`: {dict(values)} does not meet {broken.text!r}")
        return None if broken is not None else params

    @property
    def size(self) -> int | None:
        """The number of different settings, if there is no range of real numbers; a large number as it is."""
        if any(_steps(dimension.distribution) is None for dimension in self.dimensions):
            return None
        count = 1
        for dimension in self.dimensions:
            count *= len(_steps(dimension.distribution) or ())
        return count if count > LARGEST_GRID else len(self.grid())

    def grid(self) -> list[dict[str, Any]]:
        """All settings that meet the conditions, as Optuna's parameters."""
        endless = [one.key for one in self.dimensions if _steps(one.distribution) is None]
        if endless:
            raise ConfigError(
                f'`search.sampler` = "grid" needs values to choose from: `{endless[0]}` is a range of real numbers; '
                "give it `choice` or a `step`"
            )
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for number, params in enumerate(self._combinations()):
            if number > LARGEST_GRID * 10 or len(found) > LARGEST_GRID:
                raise ConfigError(
                    f"a grid of more than {LARGEST_GRID:,} settings: give fewer values, or another sampler"
                )
            found.setdefault(tuple(params.items()), params)
        if not found:
            raise ConfigError("`search.constraints` allow none of the settings of the grid")
        return list(found.values())

    def _combinations(self) -> Iterator[dict[str, Any]]:
        values = [_steps(dimension.distribution) or [] for dimension in self.dimensions]
        for combination in product(*values):
            params: dict[str, Any] = {}
            settings: dict[str, Any] = {}
            for dimension, param in zip(self.dimensions, combination, strict=True):
                if dimension.counts(settings):
                    params[dimension.key] = param
                    settings[dimension.key] = dimension.from_param(param)
            if self.broken(settings) is None:
                yield params


def _in_order(dimensions: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """Every dimension after those that its `when` names."""
    left, done = list(dimensions), []
    while left:
        ready = [one for one in left if all(key not in [other.key for other in left] for key in one.when)]
        if not ready:
            raise ConfigError(f"`search.space`: `when` of {join_or([f'`{one.key}`' for one in left])} is a circle")
        done += ready
        left = [one for one in left if one not in ready]
    return tuple(done)


def _nearest(dimension: Dimension, value: Any, own: bool) -> Any:
    """The parameter for a value; None for an own one that is not a choice."""
    found = dimension.distribution
    if isinstance(found, CategoricalDistribution):
        param = dimension.to_param(value)
        if param in found.choices:
            return param
        if own:
            return None
        raise ConfigError(
            f"`search.enqueue`: `{dimension.key}` = {value!r} is none of {join_or(list(map(str, found.choices)))}"
        )
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        if own:
            return None
        raise ConfigError(f"`search.enqueue`: `{dimension.key}` should be a number, got {value!r}")
    assert isinstance(found, (FloatDistribution, IntDistribution))
    return inside(found, value)


def _steps(found: BaseDistribution) -> list[Any] | None:
    """All values of a distribution; None if there are too many to count."""
    if isinstance(found, CategoricalDistribution):
        return list(found.choices)
    if isinstance(found, IntDistribution):
        return list(range(found.low, found.high + 1, found.step)) if found.high - found.low < LARGEST_GRID else None
    assert isinstance(found, FloatDistribution)
    if found.low == found.high:
        return [found.low]
    if found.step is None:
        return None
    return [found.low + k * found.step for k in range(int((found.high - found.low) / found.step + 1.5))]


def _varies(keys: Sequence[str]) -> str:
    return f"{join_or([f'`{key}`' for key in keys])} {'do' if len(keys) > 1 else 'does'}"


def with_settings(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The configuration of a trial: validated, and without what the search itself needs.

    >>> with_settings(RunConfig(world="CartPole-v1"), {"ppo.clip": 0.1}).ppo.clip
    0.1
    """
    layers = [nested(key, value) for key, value in settings.items()]
    return resolve(merge(config.model_dump(exclude_unset=True, exclude={"search"}), *layers))


def value_at(config: RunConfig, key: str) -> Any:
    """The value of a key with dots; None for an option of the world that is not given."""
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def flat_space(given: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`[search.space]` with one entry per key, whether keys are written with dots or as tables.

    >>> flat_space({"ppo": {"clip": {"uniform": [0.1, 0.3]}}, "ppo.gamma": [0.9, 0.99]})
    {'ppo.clip': {'uniform': [0.1, 0.3]}, 'ppo.gamma': [0.9, 0.99]}
    """
    found: dict[str, Any] = {}
    for name, spec in given.items():
        key = f"{prefix}{name}"
        for inner, one in (
            flat_space(spec, f"{key}.") if key in SECTIONS and isinstance(spec, Mapping) else {key: spec}
        ).items():
            if inner in found:
                raise ConfigError(f"`search.space`: `{inner}` is given twice")
            found[inner] = one
    return found


def of_learners(dimensions: Sequence[Dimension], config: RunConfig) -> list[Dimension]:
    """Options of a learner count when that learner is chosen, if the learner varies; those of another are rejected."""
    varies = next((one for one in dimensions if one.key == "learner"), None)
    found = []
    for dimension in dimensions:
        section = dimension.key.partition(".")[0]
        if section in specs() and varies is not None:
            if section not in varies.edges:
                raise ConfigError(
                    f"`search.space`: `{dimension.key}` never counts: `learner` is {join_or(varies.edges)}"
                )
            dimension = Dimension(
                dimension.key, dimension.distribution, {"learner": (section,), **dimension.when}, dimension.is_json
            )
        elif section in specs() and config.learner not in ("auto", section):
            raise ConfigError(
                f"`search.space`: `{dimension.key}` has no effect: `learner` is {config.learner}. Remove it, or let "
                f'`learner` vary, as learner = {{choice = ["{config.learner}", "{section}"]}}'
            )
        found.append(dimension)
    return found


def check(dimension: Dimension, dimensions: Sequence[Dimension], config: RunConfig) -> None:
    check_key(dimension.key, "search.space")
    by_key = {other.key: other for other in dimensions}
    for key, values in dimension.when.items():
        if key not in by_key:
            raise ConfigError(
                f"`search.space`: `{dimension.key}` counts when `{key}` has a value, but it does not vary"
            )
        other = by_key[key]
        if isinstance(other.distribution, CategoricalDistribution):
            for value in values:
                if value not in other.edges:
                    raise ConfigError(
                        f"`search.space`: `{dimension.key}` counts when `{key}` is {value!r}, which it never is"
                    )
    for value in dimension.edges:
        try:
            with_settings(config, {dimension.key: value})
        except ConfigError as error:
            raise ConfigError(f"`search.space`: {error}") from None


def check_key(key: str, where: str) -> None:
    section = key.partition(".")[0]
    if key in FIXED or (section in FIXED_SECTIONS and where == "search.space"):
        raise ConfigError(
            f"`{where}`: `{key}` cannot vary: it says how trials are made and compared, not what they are"
        )
    if key not in fields() and section != "world_options":
        near = closest_keys(key)
        hint = f"did you mean {join_or(near)}?" if near else "`rookery train --help-config` lists all keys"
        raise ConfigError(f"`{where}`: there is no key `{key}`; {hint}")
