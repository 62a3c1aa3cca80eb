"""Which keys of the configuration a search may vary, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import CategoricalDistribution

from rookery.config import RunConfig
from rookery.config.fields import closest_keys, fields, join_or, sections
from rookery.config.layers import merge, nested
from rookery.config.validation import resolve
from rookery.errors import ConfigError
from rookery.learners.registry import specs
from rookery.studies.space.dimensions import Dimension

SECTIONS = (*sections(), "world_options")
FIXED = ("world", "steps", "episodes", "seed", "name", "runs_dir", "callbacks", "tables", "init_from")
FIXED_SECTIONS = ("search", "monitor", "checkpoints", "evaluation", "league")


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


def flat_settings(given: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by key with dots.

    >>> flat_settings({"ppo": {"clip": 0.1}, "ppo.gamma": 0.9})
    {'ppo.clip': 0.1, 'ppo.gamma': 0.9}
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        found |= flat_settings(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def of_learners(dimensions: Sequence[Dimension], config: RunConfig) -> list[Dimension]:
    """Options of a learner count when that learner is chosen, if the learner varies; those of another are refused."""
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
