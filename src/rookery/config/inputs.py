"""The values that the user gives: a file, overrides, keywords; what may change when a run is resumed; and how values
are written as TOML."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rookery.config.curriculum_json import is_curriculum
from rookery.config.fields import fields, nested_model
from rookery.config.layers import MISSING, check_size, look_up, merge, parse_override, rename_old_keys
from rookery.config.reading import is_config, read_config, read_file, translated
from rookery.config.schema import RunConfig
from rookery.config.sections import needs_cluster
from rookery.config.translation import Translation
from rookery.config.validation import check, names_learning_rate_twice, resolve, to_plain_types
from rookery.console import say
from rookery.errors import ConfigError, OptionError
from rookery.files import replace_file
from rookery.gate import allow, allow_given, reaches
from rookery.learners.learner_spec import NET_OPTIONS
from rookery.learners.registry import option_classes


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
    `collect_config`. Everything that they name is allowed."""
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


CHANGEABLE = ("steps", "episodes", "workers", "on_failure", "max_restarts", "bad_values", "on_out_of_memory", "devices")
CHANGEABLE_SECTIONS = ("cluster", "evaluation", "checkpoints", "monitor")
FIXED = "checkpoints.dir"  # the folder of the checkpoint that is resumed


def resumed_config(recorded: Mapping[str, Any] | RunConfig, changes: Mapping[str, Any]) -> tuple[RunConfig, str]:
    """The configuration of a resumed run, and a sentence about the changes; "" if there are none.

    Args:
        recorded: The configuration in the run's folder, as it is there or validated.
        changes: The changes, from `collect_changes`. Any key may be given with its old value.

    Raises:
        ConfigError: A key may not change; the message names it and the keys that may.
    """
    before = build_config(recorded)
    if not changes:
        return before, ""
    wanted = resolve({"world": before.world, **changes})  # alone: the combination is validated below
    different = [key for key in fields() if look_up(changes, key) is not MISSING and _differs(key, before, wanted)]
    for key in different:
        if not may_change(key):
            raise ConfigError(resume_refusal(key, before.world, before.learner))
    after = resolve(merge(before.model_dump(exclude_unset=True), changes))
    unread = [key for key in different if key.startswith("cluster.") and key != "cluster.kind"]
    if unread and after.cluster.kind == before.cluster.kind == "local":
        raise needs_cluster(unread[0].partition(".")[2])
    others = tuple(f"{name}." for name in option_classes() if name != before.learner)
    shown = [_change_text(key, before, after) for key in different if not key.startswith(others)]
    return after, f"resumed with {', '.join(shown)}" if shown else ""


def may_change(key: str) -> bool:
    """Whether a resumed run may have another value of a key."""
    section, _, name = key.rpartition(".")
    if section in option_classes():
        return name in option_classes()[section].adjustable
    return key in CHANGEABLE or (section in CHANGEABLE_SECTIONS and key != FIXED)


def _differs(key: str, before: RunConfig, wanted: RunConfig) -> bool:
    old, new = _value(before, key), _value(wanted, key)
    return {**old, **new} != old if isinstance(old, dict) else new != old  # a table is merged into the old one


def _value(config: RunConfig, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _change_text(key: str, before: RunConfig, after: RunConfig) -> str:
    old, new = (json.dumps(_value(config, key)).replace("null", "none") for config in (before, after))
    return f"{key} = {new} ({old} before)"


def resume_refusal(key: str, world: str = "WORLD", learner: str = "ppo") -> str:
    """Why a key cannot change, which can, and how a new run begins with the agent."""
    section, _, name = key.rpartition(".")
    start = f"`{key}` cannot change when a run is resumed; "
    end = _new_run(key, name, world if ":" not in world else "WORLD", section in option_classes())
    if section in option_classes():
        return f"{start}of {section} these can: {', '.join(sorted(option_classes()[section].adjustable))}{end}"
    sections = ", ".join(f"{name}.*" for name in CHANGEABLE_SECTIONS)
    return (
        f"{start}these can: {', '.join(CHANGEABLE)}, {sections} (but not {FIXED}), and options of the learner such as "
        f"{learner if learner in option_classes() else 'ppo'}.learning_rate{end}"
    )


def _new_run(key: str, name: str, world: str, of_learner: bool) -> str:
    if key == "learner" or (of_learner and name in NET_OPTIONS):
        return f". The weights fit no other: `rookery train {world} --set {key}=...` begins a new run without them"
    if key == "world":
        return ". `rookery train OTHER_WORLD --from RUN` begins a new run with its agent"
    shown = f"{key}.NAME" if key == "world_options" else key
    return f". `rookery train {world} --from RUN --set {shown}=...` begins a new run with its agent"


def convert(source: str | Path, target: str | Path | None = None, *, overwrite: bool = False) -> str:
    """A config file (.json, .toml or .yaml) as the text of a TOML file; a curriculum of older trainers is translated.

    Args:
        source: The file to read.
        target: The file to write, if one is wanted.
        overwrite: Replace an existing file.

    Raises:
        ConfigError: The file is invalid, or has a null that TOML has not.
        OptionError: The target exists, cannot be written, or is not named .toml.
    """
    path = None if target is None else Path(target)
    if path is not None and path.suffix.lower() != ".toml":
        raise OptionError(f"{path}: the file name should end in .toml")
    if path is not None and os.path.lexists(path) and not overwrite:
        raise OptionError(f"{path} exists already; --force overwrites it")
    text = _as_toml(Path(source))
    if path is not None:
        try:
            replace_file(path, [text.encode()])
        except OSError as error:
            raise OptionError(f"{path} cannot be written ({error.strerror or error})") from None
    return text


def _as_toml(source: Path) -> str:
    short = is_curriculum(read_file(source))  # elsewhere, a default may be there to override a recipe
    given = collect_config(source)  # errors of both name the file already
    try:
        return f"# Converted from {source.name} by `rookery convert`.\n{to_toml(given, short)}"
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def to_toml(given: Mapping[str, Any], short: bool = False) -> str:
    """The values as TOML, in the order of the schema. If `short`, without values that are defaults.

    >>> print(to_toml({"dqn": {"tau": 1.0}, "world": "CartPole-v1", "name": None}), end="")
    world = "CartPole-v1"
    <BLANKLINE>
    [dqn]
    tau = 1.0
    """
    import tomli_w

    try:
        return tomli_w.dumps(_without_nulls({key: given[key] for key in RunConfig.model_fields if key in given}, short))
    except TypeError:
        raise ConfigError("TOML has no null, which an option of the world has here") from None


def _without_nulls(given: Mapping[str, Any], short: bool, model: type[BaseModel] = RunConfig) -> dict[str, Any]:
    """None is written as "none" where it is not the default. If `short`, all defaults are omitted."""
    found = {}
    for key, value in given.items():
        field = model.model_fields[key]
        container, part = nested_model(field) or (None, None)
        if part is not None and isinstance(value, Mapping) and container is None:
            value = _without_nulls(value, short, part)
        elif part is not None and isinstance(value, list):
            value = [_without_nulls(item, short, part) if isinstance(item, Mapping) else item for item in value]
        if value == field.get_default(call_default_factory=True) and (short or value is None):
            continue
        found[key] = "none" if value is None else value
    return found
