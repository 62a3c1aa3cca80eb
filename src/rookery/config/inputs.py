"""The values that the user gives: a file, overrides, keywords."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from rookery.config.layers import merge, parse_override, rename_old_keys
from rookery.config.reading import is_config, read_config, translated
from rookery.config.schema import RunConfig
from rookery.config.size_limits import check_size
from rookery.config.translation import Translation
from rookery.config.validation import check, names_learning_rate_twice, resolve, to_plain_types
from rookery.console import say
from rookery.errors import ConfigError
from rookery.gate import allow, allow_given, reaches


def collect_config(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> dict[str, Any]:
    """All values that the user gives, checked, as one nested dict. Later ones override earlier ones.

    Args:
        source: The name of a world, the path of a config file, or a dict with the content of one.
        overrides: Strings such as "ppo.clip=0.1".
        keywords: Keys of the configuration, by current or older names; None counts as not given.
    """
    return _collect(source, overrides, keywords)[0]


def build_config(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> RunConfig:
    """The configuration that the user gave, validated once; the arguments are those of `collect_config`. The keys that
    were given are its `model_fields_set`. Only if it is invalid are its parts validated too, to name the wrong one."""
    if isinstance(source, RunConfig):
        return source
    config, translate = _built(source, overrides, keywords)
    _report(translate)
    return config


def user_config(source: Any, overrides: Iterable[str] = (), **keywords: Any) -> RunConfig:
    """The same, and everything that the configuration names outside is allowed (see gate.py). Only for what the user of
    this process gives: never for a file that a run or a study has recorded."""
    config = build_config(source, overrides, **keywords)
    allow(reaches(config))
    return config


def _built(source: Any, overrides: Iterable[str], keywords: Mapping[str, Any]) -> tuple[RunConfig, Translation]:
    overrides = list(overrides)
    try:
        parts = [_base(source)[0], *map(parse_override, overrides), _given_keywords(keywords)]
        translate = Translation(*parts)
        named = [to_plain_types(rename_old_keys(translate(part))) for part in parts]
        if not any(map(names_learning_rate_twice, named)):
            return resolve(merge(*named)), translate
    except (ConfigError, AttributeError, TypeError):  # the last two: of tables that are none
        pass
    given, translate = _collect(source, overrides, keywords)
    return resolve(given), translate


def _collect(source: Any, overrides: Iterable[str], keywords: Mapping[str, Any]) -> tuple[dict[str, Any], Translation]:
    base, where = _base(source)
    texts, last = list(overrides), _given_keywords(keywords)
    translate = Translation(base, *map(parse_override, texts), last)
    given = merge(_checked(base, where, translate), _changes(texts, last, translate))
    check(given, where)
    return given, translate


def collect_changes(overrides: Iterable[str] = (), **keywords: Any) -> dict[str, Any]:
    """Changes that the user makes to an existing configuration, checked on their own; the arguments are those of
    `collect_config`. What they name outside is allowed."""
    texts, last = list(overrides), _given_keywords(keywords)
    translate = Translation(*map(parse_override, texts), last)
    changes = _changes(texts, last, translate)
    _report(translate)
    allow_given(changes)
    return changes


def _changes(texts: list[str], last: Mapping[str, Any], translate: Translation) -> dict[str, Any]:
    parts = [_checked(parse_override(text), f"--set {text}", translate) for text in texts]
    check_size(last, "the configuration")
    return merge(*parts, _checked(last, "", translate))


def _report(translate: Translation) -> None:
    """Say which names of other libraries were understood, and as what."""
    if translate.notes:
        say("understood " + ", ".join(f"`{name}` as {key}" for name, key in translate.notes.items()))


def _checked(part: Mapping[str, Any], where: str, translate: Translation) -> dict[str, Any]:
    named = _current_names(part, where, translate)
    check(named, where, complete=False)
    return to_plain_types(named)


def _base(source: Any) -> tuple[dict[str, Any], str]:
    if isinstance(source, Mapping):
        check_size(source, "the configuration")
        return translated(source), ""
    if isinstance(source, (str, PathLike)):
        text = fspath(source)
        return (read_config(text), text) if is_config(text) else ({"world": text}, "")
    raise ConfigError(f"expected the name of a world, a config file or a dict, got {source!r}")


def _given_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    measured = ("num_envs", "n_envs")  # None means "auto" there
    return {name: value for name, value in keywords.items() if value is not None or name in measured}


def _current_names(part: Mapping[str, Any], where: str, translate: Translation) -> dict[str, Any]:
    try:
        return rename_old_keys(translate(part))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from None
