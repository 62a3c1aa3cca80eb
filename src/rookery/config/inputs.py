"""What the user gave, from wherever: a file, overrides, keywords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from rookery.config.curriculum_json import from_json, is_curriculum
from rookery.config.layers import legacy, merge, parse_override
from rookery.config.reading import is_config, read_config
from rookery.config.schema import RunConfig
from rookery.config.size_limits import check_size
from rookery.config.validation import check, names_learning_rate_twice, resolve, tidy
from rookery.errors import ConfigError


def gather(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> dict[str, Any]:
    """All that the user gave, checked, as one nested dict: later layers win.

    Args:
        source: A world's name, the path of a config file, or a dict such as one would be read as.
        overrides: Texts such as "ppo.clip=0.1".
        keywords: Keys of the configuration, by today's or older names; None counts as not given.
    """
    base, where = _base(source)
    given = merge(_checked(base, where), gather_changes(overrides, **keywords))
    check(given, where)
    return given


def build_config(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> RunConfig:
    """The configuration that the user gave, validated once; the arguments are those of `gather`. Its `model_fields_set`
    are the keys that were given. Only if it is invalid are its parts validated too, to name the one at fault."""
    if isinstance(source, RunConfig):
        return source
    try:
        parts = [_base(source)[0], *map(parse_override, overrides), _given_keywords(keywords)]
        named = [tidy(legacy(part)) for part in parts]
        if not any(map(names_learning_rate_twice, named)):
            return resolve(merge(*named))
    except (ConfigError, AttributeError, TypeError):  # the last two: of tables that are none
        pass
    return resolve(gather(source, overrides, **keywords))


def gather_changes(overrides: Iterable[str] = (), **keywords: Any) -> dict[str, Any]:
    """What is to be laid over a configuration that is there already, checked as far as it goes by itself; the arguments
    are those of `gather`."""
    parts = [_checked(parse_override(text), f"--set {text}") for text in overrides]
    check_size(keywords, "the configuration")
    return merge(*parts, _checked(_given_keywords(keywords), ""))


def _checked(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    named = _named_as_today(part, where)
    check(named, where, whole=False)
    return tidy(named)


def _base(source: Any) -> tuple[dict[str, Any], str]:
    if isinstance(source, Mapping):
        check_size(source, "the configuration")
        return from_json(source) if is_curriculum(source) else dict(source), ""
    if isinstance(source, (str, PathLike)):
        text = fspath(source)
        return (read_config(text), text) if is_config(text) else ({"world": text}, "")
    raise ConfigError(f"give a world's name, a config file or a dict, got {source!r}")


def _given_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    ask = ("num_envs", "n_envs")  # None means "find out" there
    return {name: value for name, value in keywords.items() if value is not None or name in ask}


def _named_as_today(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    try:
        return legacy(part)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from None
