"""From one kind of configuration file to another."""

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
    """The text of a file that means the same: ".toml", or ".json" in the form of older trainers' curriculum files.

    Raises:
        ConfigError: The file cannot be used as it is, or says what the other kind cannot.
    """
    content = read_file(source)  # whose errors name the file themselves
    given = gather(source)
    try:
        if kind == ".json":
            return json.dumps(to_json(given), indent=2, ensure_ascii=False) + "\n"
        short = is_curriculum(content)  # in others, a default may be there to undo what is usual for a world
        return f"# Converted from {source.name} by `rookery convert`.\n{dumps(sayable(given, short))}"
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def kind_of(source: Path, target: Path | None) -> str:
    """What to write: by the target's name, or the other kind than the source."""
    if target is None:
        return ".json" if source.suffix.lower() == ".toml" else ".toml"
    if target.suffix.lower() not in KINDS:
        raise ConfigError(f"{target}: the name should end in {' or '.join(KINDS)}")
    return target.suffix.lower()
