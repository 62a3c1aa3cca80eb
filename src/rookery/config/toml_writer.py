"""Writing a configuration as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from rookery.config.fields import part_of, sections
from rookery.config.schema import RunConfig
from rookery.errors import ConfigError

BARE = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 100  # beyond which a list has a line for each item


def dumps(given: Mapping[str, Any]) -> str:
    """As a file that a person would write: plain keys, then sections, then phases.

    >>> print(dumps({"world": "Go-v1", "phases": [{"episodes": 5, "opponents": "weak"}], "dqn": {"tau": 1.0}}), end="")
    world = "Go-v1"
    <BLANKLINE>
    [dqn]
    tau = 1.0
    <BLANKLINE>
    [[phases]]
    episodes = 5
    opponents = "weak"
    """
    tables = {key: given[key] for key in ("world_options", *sections()) if key in given and key != "phases"}
    plain = {key: given[key] for key in RunConfig.model_fields if key in given and key not in (*tables, "phases")}
    blocks = ["".join(_lines(plain))]
    blocks += [f"[{key}]\n" + "".join(_lines(table)) for key, table in tables.items() if table]
    blocks += ["[[phases]]\n" + "".join(_lines(phase)) for phase in given.get("phases", [])]
    return "\n".join(block for block in blocks if block)


def sayable(given: Mapping[str, Any], short: bool, model: type[BaseModel] = RunConfig) -> dict[str, Any]:
    """The same in words that TOML has: nothing is "none", where leaving a key out would say something else. If `short`,
    whatever leaving it out would say as well is left out."""
    found = {}
    for key, value in given.items():
        field = model.model_fields[key]
        shape, part = part_of(field) or (None, None)
        if part is not None and isinstance(value, Mapping) and shape is None:
            value = sayable(value, short, part)
        elif part is not None and isinstance(value, list):
            value = [sayable(item, short, part) if isinstance(item, Mapping) else item for item in value]
        usual = field.get_default(call_default_factory=True)
        if value == usual and (short or value is None):
            continue
        found[key] = "none" if value is None else value
    return found


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    """A line for each key; tables of tables by keys with dots."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
            for name, item in value.items():
                yield f"{_key(key)}.{_key(name)} = {_value(item)}\n"
        else:
            yield f"{_key(key)} = {_broken(value, len(key))}\n"


def _broken(value: Any, before: int) -> str:
    text = _value(value)
    if isinstance(value, (list, tuple)) and before + len(text) > WIDTH:
        return "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    return text


def _value(value: Any) -> str:
    if value is None:
        raise ConfigError("TOML has no null, which an option of the world has here")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _value(key)
