"""The values that the user gives: a file, overrides, keywords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from rookery.config.curriculum_json import from_json, is_curriculum
from rookery.config.layers import merge, parse_override, rename_old_keys
from rookery.config.reading import is_config, read_config
from rookery.config.schema import RunConfig
from rookery.config.size_limits import check_size
from rookery.config.validation import check, names_learning_rate_twice, resolve, to_plain_types
from rookery.errors import ConfigError


def collect_config(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> dict[str, Any]:
    """All values that the user gives, checked, as one nested dict. Later ones override earlier ones.

    Args:
        source: The name of a world, the path of a config file, or a dict with the content of one.
        overrides: Strings such as "ppo.clip=0.1".
        keywords: Keys of the configuration, by current or older names; None counts as not given.
    """
    base, where = _base(source)
    given = merge(_checked(base, where), collect_changes(overrides, **keywords))
    check(given, where)
    return given


def build_config(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> RunConfig:
    """The configuration that the user gave, validated once; the arguments are those of `collect_config`. The keys that
    were given are its `model_fields_set`. Only if it is invalid are its parts validated too, to name the wrong one."""
    if isinstance(source, RunConfig):
        return source
    try:
        parts = [_base(source)[0], *map(parse_override, overrides), _given_keywords(keywords)]
        named = [to_plain_types(rename_old_keys(part)) for part in parts]
        if not any(map(names_learning_rate_twice, named)):
            return resolve(merge(*named))
    except (ConfigError, AttributeError, TypeError):  # the last two: of tables that are none
        pass
    return resolve(collect_config(source, overrides, **keywords))


def collect_changes(overrides: Iterable[str] = (), **keywords: Any) -> dict[str, Any]:
    """Changes to an existing configuration, checked on their own; the arguments are those of `collect_config`."""
    parts = [_checked(parse_override(text), f"--set {text}") for text in overrides]
    check_size(keywords, "the configuration")
    return merge(*parts, _checked(_given_keywords(keywords), ""))


def _checked(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    named = _current_names(part, where)
    check(named, where, complete=False)
    return to_plain_types(named)


def _base(source: Any) -> tuple[dict[str, Any], str]:
    if isinstance(source, Mapping):
        check_size(source, "the configuration")
        return from_json(source) if is_curriculum(source) else dict(source), ""
    if isinstance(source, (str, PathLike)):
        text = fspath(source)
        return (read_config(text), text) if is_config(text) else ({"world": text}, "")
    raise ConfigError(f"expected the name of a world, a config file or a dict, got {source!r}")


def _given_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    measured = ("num_envs", "n_envs")  # None means "auto" there
    return {name: value for name, value in keywords.items() if value is not None or name in measured}


def _current_names(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    try:
        return rename_old_keys(part)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from None
