"""Translation of configuration files: TOML, and the JSON curriculum files of older trainers."""

from __future__ import annotations

import json
from pathlib import Path

from rookery.config.curriculum_json import is_curriculum, to_json
from rookery.config.inputs import gather
from rookery.config.reading import read_file
from rookery.config.toml_writer import dumps, sayable
from rookery.errors import ConfigError

KINDS = (".toml", ".json")


def converted(source: Path, kind: str) -> str:
    """The same configuration as the text of a file: ".toml", or ".json" as a curriculum file of older trainers.

    Raises:
        ConfigError: The file is invalid, or uses options that the other format does not have.
    """
    content = read_file(source)  # its errors name the file already
    given = gather(source)
    try:
        if kind == ".json":
            return json.dumps(to_json(given), indent=2, ensure_ascii=False) + "\n"
        short = is_curriculum(content)  # elsewhere, a default may be there to override a recipe
        return f"# Converted from {source.name} by `rookery convert`.\n{dumps(sayable(given, short))}"
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def kind_of(source: Path, target: Path | None) -> str:
    """The format to write: by the name of the target, or the other format than the source."""
    if target is None:
        return ".json" if source.suffix.lower() == ".toml" else ".toml"
    if target.suffix.lower() not in KINDS:
        raise ConfigError(f"{target}: the file name should end in {' or '.join(KINDS)}")
    return target.suffix.lower()
