"""Validation: from the given values to a RunConfig, or to one error that lists every mistake."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import islice
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rookery.config import fields, layers
from rookery.config.fields import KeyPath, Steps, find_key, path_heading, path_text
from rookery.config.layers import check_size
from rookery.config.schema import RunConfig
from rookery.config.sections import Phase
from rookery.console import join_or, printable
from rookery.errors import ConfigError, OptionError
from rookery.foreign_names import VALUES, answer
from rookery.foreign_options import ANSWERS, SAME
from rookery.learners.registry import option_classes

LONGEST_VALUE = 60
MOST_LISTED = 30  # mistakes in one message
NONE_TEXTS = ("none", "null")


def check(given: Mapping[str, Any], where: str = "", complete: bool = True) -> None:
    """Refuse invalid values; the error names each wrong key and its valid values.

    Args:
        given: Nested dict, with current names (see `rename_old_keys`).
        where: The file or flag that it came from, for the message.
        complete: Whether `world` is required; False for a part of a configuration.
    """
    _validated(given if complete else {"world": "-", **given}, where)


def resolve(given: Mapping[str, Any], recipe: Mapping[str, Any] | None = None) -> RunConfig:
    """The complete configuration: defaults, over them the recipe, over that what was given."""
    config = _validated(given, "")
    if config.learning_rate is not None:
        config = _with_short_learning_rate(config)
    return with_recipe(config, recipe) if recipe else config


def with_recipe(config: RunConfig, recipe: Mapping[str, Any]) -> RunConfig:
    """A valid configuration with a recipe's values for the keys that the user did not give."""
    known = _validated(layers.merge({"world": config.world}, to_plain_types(recipe)), f"the recipe of {config.world}")
    joined = _joined(config, known)
    try:
        joined.check_together()
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return joined


def _joined(above: Any, below: Any) -> Any:
    """A model with the values of another for the fields that were not given, or given as "auto", in the first; without
    those that would replace a field that was given."""
    changes = {}
    replaces = getattr(above, "replaces", {})
    for name in below.model_fields_set:
        if name in replaces and name not in above.model_fields_set and replaces[name] in above.model_fields_set:
            continue
        value, given = getattr(below, name), getattr(above, name)
        if name not in above.model_fields_set or given == "auto":
            changes[name] = value
        elif isinstance(given, BaseModel):
            changes[name] = _joined(given, value)
        elif isinstance(given, dict):
            changes[name] = {**value, **given}
    return above.model_copy(update=changes)


def _with_short_learning_rate(config: RunConfig) -> RunConfig:
    """`learning_rate` in the sections of all learners that were not given one of their own."""
    rate, changes = config.learning_rate, {}
    for name in option_classes():
        section = getattr(config, name)
        if "learning_rate" not in section.model_fields_set:
            changes[name] = section.model_copy(update={"learning_rate": rate})
    return config.model_copy(update={**changes, "learning_rate": None})


def check_phases(config: RunConfig) -> None:
    """Refuse phases that change options which the learner cannot change. Call it again once the learner is known."""
    problems = list(_impossible_phases(config))
    if problems:
        raise ConfigError(join_problems(problems))


def to_plain_types(given: Mapping[Any, Any], model: type[BaseModel] = RunConfig) -> dict[str, Any]:
    """The values in plain Python types: 1e5 as an integer where the field is one, NumPy's numbers as Python's, paths as
    strings, and "none" as None where None is valid (TOML has no null)."""
    known = model.model_fields
    return {str(key): _plain_value(value, known[key]) if key in known else value for key, value in given.items()}


def _plain_value(value: Any, field: FieldInfo) -> Any:
    kinds = fields.kinds(field)
    if isinstance(value, str) and value.lower() in NONE_TEXTS and None in kinds and str not in kinds:
        return None
    part = fields.nested_model(field)
    if part is not None:
        section = part[0] is None and None not in kinds
        return (
            {} if section and value is None else _plain_model(value, *part)
        )  # None: a YAML section with comments only
    if field is Phase.model_fields["learner"]:
        return _plain_overrides(value)
    if isinstance(value, (list, tuple)):
        return [_plain_number(item, integer=True) for item in value]
    if str in kinds and (isinstance(value, PurePath) or type(value).__name__ == "device"):  # torch.device
        return str(value)
    return _plain_number(value, integer=int in kinds and float not in kinds)


def _plain_model(value: Any, shape: Any, model: type[BaseModel]) -> Any:
    """A table, or a list or dict of tables."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    if shape is list and isinstance(value, (list, tuple)):
        return [_plain_model(item, None, model) for item in value]
    if shape is dict and isinstance(value, Mapping):
        return {str(name): _plain_model(item, None, model) for name, item in value.items()}
    return to_plain_types(value, model) if isinstance(value, Mapping) else _plain_number(value, integer=False)


def _plain_overrides(value: Any) -> Any:
    """Options of a learner, which may not be known yet."""
    if not isinstance(value, Mapping):
        return value
    known = {name: field for options in option_classes().values() for name, field in options.model_fields.items()}
    return {key: _plain_value(item, known[key]) if key in known else item for key, item in value.items()}


SHORT_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kmb])", re.IGNORECASE)
GROUPED_NUMBER = re.compile(r"\d{1,3}([ ,]\d{3})+")  # as the panel writes it
THOUSANDS = {"k": 10**3, "m": 10**6, "b": 10**9}


def _plain_number(value: Any, integer: bool) -> Any:
    """Also for texts such as 500k or 1.5M where an integer is meant."""
    if integer and isinstance(value, str) and GROUPED_NUMBER.fullmatch(value):
        return int(re.sub("[ ,]", "", value))
    if integer and isinstance(value, str) and (short := SHORT_NUMBER.fullmatch(value)):
        value = float(Fraction(short[1]) * THOUSANDS[short[2].lower()])
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return int(number) if integer and number.is_integer() else number
    return value


def _validated(given: Mapping[str, Any], where: str) -> RunConfig:
    plain = to_plain_types(given)
    check_size(plain, where or "the configuration")
    try:
        config = RunConfig.model_validate(plain, strict=True)
        problems = [*_two_learning_rates(plain), *_impossible_phases(config)]
    except ValidationError as error:
        problems = _without_repeats(list(islice(_problems(error, plain), MOST_LISTED + 1)))
    if problems:
        raise ConfigError(join_problems(problems, where))
    return config


def _without_repeats(problems: list[str]) -> list[str]:
    """One problem for an option that was given to several learners, as it is if it is given without a section.

    >>> _without_repeats(["`ppo.gamma` should be <= 1", "`sac.gamma` should be <= 1", "`ppo.clip` should be > 0"])
    ['`gamma` should be <= 1', '`ppo.clip` should be > 0']
    """
    pattern = rf"^`(?:{'|'.join(option_classes())})\.(?=(?:{'|'.join((*SAME, 'learning_rate'))})`)"
    plain = [re.sub(pattern, "`", problem) for problem in problems]
    return list(
        dict.fromkeys(short if plain.count(short) > 1 else long for short, long in zip(plain, problems, strict=True))
    )


def join_problems(problems: list[str], where: str = "") -> str:
    """One message that lists all problems."""
    beginning = f"{where}: " if where else ""
    listed = [printable(problem) for problem in problems[:MOST_LISTED]]
    if len(problems) == 1:
        return beginning + listed[0]
    count = len(problems) if len(problems) <= MOST_LISTED else f"more than {MOST_LISTED}"
    return "\n  ".join([f"{beginning}{count} problems", *listed])


def _problems(error: ValidationError, given: Mapping[str, Any]) -> Iterable[str]:
    """One sentence for each wrong key; pydantic lists one error for each alternative of a type."""
    seen = set()
    for item in error.errors(include_url=False):
        kind, path = item["type"], item["loc"]
        if kind == "extra_forbidden":
            yield _unknown(path, given)
        elif kind == "missing":
            yield _missing(path, given)
        elif kind == "value_error" and path and str(path[-1]).endswith("_schedule"):
            yield f"`{find_key(path, given).name}` should be {item['ctx']['error']}"
        elif kind == "value_error":  # its own message names the keys
            yield str(item["ctx"]["error"])
        else:
            place = find_key(path, given)
            if place.name not in seen:
                seen.add(place.name)
                yield _bad_value(place)


def _bad_value(place: KeyPath) -> str:
    shown = repr(place.value)
    if len(shown) > LONGEST_VALUE:
        shown = f"{shown[:LONGEST_VALUE]}..."
    if place.field is not None and place.name not in fields.sections():
        valid = fields.valid_values(place.field)
        if isinstance(place.value, float) and not math.isfinite(place.value):
            valid = valid.replace("a number", "a finite number")
        meant = answer(str(place.value), VALUES.get(place.name, {}))
        if isinstance(place.value, list) and list not in fields.kinds(place.field):
            meant = "rookery.search(world, space={KEY: [...]}) tries several values"
        return f"`{place.name}` should be {valid}, got {shown}" + (f"; {meant}" if meant else "")
    keys = ", ".join(place.model.model_fields) if place.model else ""
    kind = "table" if place.nested else "table (in Python a dict)"
    return f"`{place.name}` should be a {kind} with the keys {keys}, got {shown}"


def _missing(path: Steps, given: Mapping[str, Any]) -> str:
    if len(path) == 1:
        return f"`{path[0]}` is missing: name a Gymnasium id such as CartPole-v1, or my_file.py:MyEnv"
    field = find_key(path, given).field
    wanted = f": {fields.valid_values(field)}" if field is not None else ""
    return f"{path_heading(path[:-1], given)}: `{path[-1]}` is missing{wanted}"


def _unknown(path: Steps, given: Mapping[str, Any]) -> str:
    owner, leaf = find_key(path[:-1], given), str(path[-1])
    if owner.nested and owner.model is not None:
        near, keys, key = fields.closest_names(leaf, owner.model.model_fields), list(owner.model.model_fields), leaf
        beginning, there = f"{path_heading(path[:-1], given)}: ", "there"
    else:
        key, section = path_text(path), path_text(path[:-1])
        near, keys = fields.closest_keys(key, given.get("learner")), fields.keys_of(section)
        beginning, there = "", f"of `{section}`" if section else ""
    if near:
        options = not owner.nested and all(fields.is_far(name, key) for name in near)
        world = f" For an option of the world, use `world_options.{key}`" if options and "." not in key else ""
        return f"{beginning}unknown key `{key}`; did you mean {join_or([f'`{name}`' for name in near])}?{world}"
    if not owner.nested and (text := answer(leaf, ANSWERS)):  # inside a table of its own, few keys are valid
        return f"{beginning}unknown key `{key}`; {text}"
    if not there:
        return (
            f"{beginning}unknown key `{key}`; `rookery train --help-config` lists all keys, and options of the world "
            "are in `world_options`"
        )
    return f"{beginning}unknown key `{key}`; the keys {there} are {', '.join(keys)}"


def _impossible_phases(config: RunConfig) -> Iterable[str]:
    """Phases that change options which the learner cannot change during a run. The learner may still be "auto"."""
    names = [{"name": phase.name} for phase in config.phases]
    known = dict.fromkeys(name for options in option_classes().values() for name in options.model_fields)
    for number, phase in enumerate(config.phases):
        start = path_heading(("phases", number, "learner"), {"phases": names})
        if config.learner == "auto":
            for key in (key for key in phase.learner if key not in known):
                near = fields.closest_names(key, known)
                yield f"{start}: unknown option `{key}`" + (f"; did you mean `{near[0]}`?" if near else "")
            continue
        try:
            config.learner_options.adjusted(phase.learner)
        except OptionError as error:
            yield f"{start}: {error}"


def names_learning_rate_twice(given: Mapping[str, Any]) -> bool:
    """Whether a part of a configuration names two different learning rates for one learner."""
    return any(_two_learning_rates(given))


def _two_learning_rates(given: Mapping[str, Any]) -> Iterable[str]:
    """The short and the long name of the chosen learner's learning rate must not differ."""
    short, learner = given.get("learning_rate"), given.get("learner", "auto")
    for name in option_classes():
        long = given.get(name, {}).get("learning_rate")
        if short is not None and long not in (None, short) and learner in ("auto", name):
            yield layers.two_names_message("learning_rate", short, f"{name}.learning_rate", long)
