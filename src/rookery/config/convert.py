"""Translation of configuration files: TOML, and the JSON curriculum files of older trainers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rookery.config.curriculum_json import is_curriculum, to_json
from rookery.config.fields import nested_model
from rookery.config.inputs import collect_config
from rookery.config.reading import read_file
from rookery.config.schema import RunConfig
from rookery.errors import ConfigError

FORMATS = (".toml", ".json")


def converted(source: Path, target_format: str) -> str:
    """The same configuration as the text of a file: ".toml", or ".json" as a curriculum file of older trainers.

    Raises:
        ConfigError: The file is invalid, or uses options that the other format does not have.
    """
    content = read_file(source)  # its errors name the file already
    given = collect_config(source)
    try:
        if target_format == ".json":
            return json.dumps(to_json(given), indent=2, ensure_ascii=False) + "\n"
        short = is_curriculum(content)  # elsewhere, a default may be there to override a recipe
        return f"# Converted from {source.name} by `rookery convert`.\n{to_toml(given, short)}"
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def target_format(source: Path, target: Path | None) -> str:
    """The format to write: by the name of the target, or the other format than the source."""
    if target is None:
        return ".json" if source.suffix.lower() == ".toml" else ".toml"
    if target.suffix.lower() not in FORMATS:
        raise ConfigError(f"{target}: the file name should end in {' or '.join(FORMATS)}")
    return target.suffix.lower()


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
