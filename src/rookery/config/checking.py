"""From what was given to a checked configuration, or to one error that tells everything that is wrong with it."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, ValidationError

from rookery.config import fields, layers
from rookery.config.schema import RunConfig
from rookery.errors import ConfigError

LONGEST_VALUE = 60
NOTHING = ("none", "null")


def check(given: Mapping[str, Any], where: str = "", whole: bool = True) -> None:
    """Refuse what cannot work, naming each wrong key and what is valid there.

    Args:
        given: As a file or keywords would have it, nested, with today's names (see `legacy`).
        where: The file or flag it came from, for the message.
        whole: Whether the world must be among it; False for a part of a configuration.
    """
    _validated(given if whole else {"world": "-", **given}, where)


def resolve(given: Mapping[str, Any], recipe: Mapping[str, Any] | None = None) -> RunConfig:
    """The whole configuration: defaults, over them the recipe, over that what was given."""
    check(given)
    return _validated(layers.merge(tidy(recipe or {}), tidy(given)), "")


def tidy(given: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Values in plain Python types: 1e5 as a whole number where one is wanted, NumPy's numbers as Python's, paths as
    text, and "none" as nothing where that is possible (TOML has no word for it)."""
    return {str(key): _tidy_value(value, f"{prefix}{key}") for key, value in given.items()}


def _tidy_value(value: Any, key: str) -> Any:
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    if key in fields.sections():
        value = {} if value is None else value  # how YAML reads a section whose keys are all comments
        return tidy(value, f"{key}.") if isinstance(value, Mapping) else value
    known = fields.fields().get(key)
    if known is None:
        return value
    kinds = fields.kinds(known)
    if isinstance(value, str) and value.lower() in NOTHING and None in kinds and str not in kinds:
        return None
    if isinstance(value, (list, tuple)):
        return [_plain_number(item, whole=True) for item in value]
    if str in kinds and (isinstance(value, PurePath) or type(value).__name__ == "device"):  # torch.device
        return str(value)
    return _plain_number(value, whole=int in kinds and float not in kinds)


def _plain_number(value: Any, whole: bool) -> Any:
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return int(number) if whole and number.is_integer() else number
    return value


def _validated(given: Mapping[str, Any], where: str) -> RunConfig:
    tidied = tidy(given)
    try:
        config = RunConfig.model_validate(tidied, strict=True)
        problems = list(_two_learning_rates(tidied))
    except ValidationError as error:
        problems = list(_problems(error, tidied))
    if problems:
        raise ConfigError(_message(problems, where))
    return config


def _message(problems: list[str], where: str) -> str:
    beginning = f"{where}: " if where else ""
    if len(problems) == 1:
        return beginning + problems[0]
    return "\n  ".join([f"{beginning}{len(problems)} things are wrong", *problems])


def _problems(error: ValidationError, given: Mapping[str, Any]) -> Iterable[str]:
    """One sentence for each wrong key, however many ways there were to get it right."""
    told = set()
    for item in error.errors(include_url=False):
        kind, path = item["type"], [str(part) for part in item["loc"]]
        if kind == "extra_forbidden":
            yield _unknown(".".join(path), given.get("learner"))
        elif kind == "missing":
            yield f"`{'.'.join(path)}` is missing: name a Gymnasium id such as CartPole-v1, or my_file.py:MyEnv"
        elif not path:
            yield str(item["ctx"]["error"])
        else:
            key = _known_part(path)
            if key not in told:
                told.add(key)
                yield _bad_value(key, _value_at(given, key))


def _known_part(path: list[str]) -> str:
    """The key within an error's path, which goes on into lists and into the alternatives of a type."""
    known = {*fields.fields(), *fields.sections()}
    return next(key for n in range(len(path), 0, -1) if (key := ".".join(path[:n])) in known)


def _value_at(given: Mapping[str, Any], key: str) -> Any:
    value: Any = given
    for part in key.split("."):
        value = value[part]
    return value


def _bad_value(key: str, value: Any) -> str:
    shown = repr(value)
    if len(shown) > LONGEST_VALUE:
        shown = f"{shown[:LONGEST_VALUE]}..."
    if key in fields.sections():
        return f"`{key}` should be a section with keys of its own ({', '.join(fields.keys_of(key))}), got {shown}"
    return f"`{key}` should be {fields.in_words(fields.fields()[key])}, got {shown}"


def _unknown(key: str, learner: Any) -> str:
    near = fields.nearest(key, learner)
    if near:
        return f"unknown key `{key}`; did you mean {fields.joined([f'`{name}`' for name in near])}?"
    section = key.rpartition(".")[0]
    place = f"`{section}`" if section else "the top"
    return f"unknown key `{key}`; the keys at {place} are {', '.join(fields.keys_of(section))}"


def _two_learning_rates(given: Mapping[str, Any]) -> Iterable[str]:
    """The short name beside the long one is an error where they differ and it matters."""
    short, learner = given.get("learning_rate"), given.get("learner", "auto")
    for name in fields.LEARNERS:
        long = given.get(name, {}).get("learning_rate")
        if short is not None and long not in (None, short) and learner in ("auto", name):
            yield layers.two_names("learning_rate", short, f"{name}.learning_rate", long)
