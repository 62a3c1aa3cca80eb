"""From an old file's content to a configuration of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config.curriculum_json.agent_section import Learning
from rookery.config.curriculum_json.names import EVERY, LEARNING, SAID_OTHERWISE, SECTIONS, STEPS_FROM, TRAINING
from rookery.config.curriculum_json.phases_section import PhasesReader
from rookery.config.curriculum_json.table_reader import TableReader, unknown
from rookery.config.fields import fields, like
from rookery.config.layers import MISSING, OLD_NAMES, legacy, merge, nested
from rookery.config.schema import RunConfig
from rookery.config.validation import told_together
from rookery.errors import ConfigError
from rookery.worlds import registry

WHOLE = fields()["evaluation.episodes"]  # a whole number from 1 up
BESIDE = [name for name in (*RunConfig.model_fields, *OLD_NAMES) if name not in SAID_OTHERWISE]


def is_curriculum(content: Any) -> bool:
    """Whether this is such a file's content."""
    return isinstance(content, Mapping) and "curriculum" in content


def from_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same as a configuration of today, in which nothing stands that the file does not say.

    Raises:
        ConfigError: Something is unknown or cannot be; all of it is told at once, by the file's own names.
    """
    reader = TableReader()
    beside = _beside(reader, content)
    curriculum = reader.table(content["curriculum"], "curriculum", ("phases",))
    learning = Learning(reader, content)
    running, longest = _training(reader, content.get("training"), learning)
    phases = PhasesReader(reader, longest)
    found = {
        "world": registry.curriculum_world(),
        **learning.sections(),
        **running,
        "phases": phases.read(curriculum.get("phases")),
    }
    if learning.world_options:
        found["world_options"] = learning.world_options
    if phases.league:
        found["league"] = phases.league
    if reader.problems:
        raise ConfigError(told_together(reader.problems))
    return merge(found, beside)


def _beside(reader: TableReader, content: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of today that stand beside the old sections."""
    for key in map(str, content):
        if key in SAID_OTHERWISE:
            reader.problems.append(f"`{key}` cannot stand beside `curriculum`: it is said in {', '.join(SECTIONS)}")
        elif key not in SECTIONS and key not in BESIDE:
            near = like(key, [*SECTIONS, *BESIDE])
            reader.problems.append(unknown("", key, near or list(SECTIONS)))
    return legacy({key: value for key, value in content.items() if key in BESIDE})


def _training(reader: TableReader, content: Any, learning: Learning) -> tuple[dict[str, Any], int | None]:
    """What is said about the run, and the time limit of its episodes."""
    found: dict[str, Any] = {}
    longest = None
    for name, value in reader.table(content, "training", TRAINING).items():
        place = f"training.{name}"
        if name in LEARNING:
            learning.train_by(name, value)
        elif name == "reward_scale":
            found["reward_scale"] = reader.checked(place, value, fields()["reward_scale"])
        elif (number := reader.checked(place, value, WHOLE)) is MISSING:
            continue
        elif name == "max_episode_steps":
            longest = number
        else:
            found = merge(found, nested(_every(name, number), number))
    return found, longest


def _every(name: str, number: int) -> str:
    """Which key a distance between two evaluations or checkpoints belongs to."""
    steps = name != "checkpoint_save_freq" and number >= STEPS_FROM
    return f"{EVERY[name]}.{'every' if steps else 'every_episodes'}"
