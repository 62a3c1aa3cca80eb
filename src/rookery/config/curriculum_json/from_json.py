"""From the content of an old file to a current configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config.curriculum_json.agent_section import Learning
from rookery.config.curriculum_json.names import EVERY, LEARNING, REPLACED_KEYS, SECTIONS, STEPS_FROM, TRAINING
from rookery.config.curriculum_json.phases_section import PhasesReader
from rookery.config.curriculum_json.table_reader import TableReader, unknown
from rookery.config.fields import closest_names, fields
from rookery.config.layers import MISSING, OLD_NAMES, merge, nested, rename_old_keys
from rookery.config.schema import RunConfig
from rookery.config.validation import join_problems
from rookery.errors import ConfigError
from rookery.worlds import registry

POSITIVE_INT = fields()["evaluation.episodes"]
CURRENT_KEYS = [name for name in (*RunConfig.model_fields, *OLD_NAMES) if name not in REPLACED_KEYS]


def is_curriculum(content: Any) -> bool:
    """Whether this is the content of an old curriculum file."""
    return isinstance(content, Mapping) and "curriculum" in content


def from_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """The current configuration of the same meaning; it holds only what the file gives.

    Raises:
        ConfigError: Keys are unknown or values invalid; the message lists all of them, by the file's own names.
    """
    reader = TableReader()
    current = _current_keys(reader, content)
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
    if learning.init_from is not None:
        found["init_from"] = learning.init_from
    if learning.world_options:
        found["world_options"] = learning.world_options
    if phases.league:
        found["league"] = phases.league
    if reader.problems:
        raise ConfigError(join_problems(reader.problems))
    return merge(found, current)


def _current_keys(reader: TableReader, content: Mapping[str, Any]) -> dict[str, Any]:
    """Current keys beside the old sections."""
    for key in map(str, content):
        if key in REPLACED_KEYS:
            reader.problems.append(f"`{key}` cannot be combined with `curriculum`: give it in {', '.join(SECTIONS)}")
        elif key not in SECTIONS and key not in CURRENT_KEYS:
            near = closest_names(key, [*SECTIONS, *CURRENT_KEYS])
            reader.problems.append(unknown("", key, near or list(SECTIONS)))
    return rename_old_keys({key: value for key, value in content.items() if key in CURRENT_KEYS})


def _training(reader: TableReader, content: Any, learning: Learning) -> tuple[dict[str, Any], int | None]:
    """The options of the run, and the time limit of its episodes."""
    found: dict[str, Any] = {}
    longest = None
    for name, value in reader.table(content, "training", TRAINING).items():
        place = f"training.{name}"
        if name in LEARNING:
            learning.train_by(name, value)
        elif name == "reward_scale":
            found["reward_scale"] = reader.checked(place, value, fields()["reward_scale"])
        elif (number := reader.checked(place, value, POSITIVE_INT)) is MISSING:
            continue
        elif name == "max_episode_steps":
            longest = number
        else:
            found = merge(found, nested(_every(name, number), number))
    return found, longest


def _every(name: str, number: int) -> str:
    """The key of an interval between two evaluations or checkpoints."""
    steps = name != "checkpoint_save_freq" and number >= STEPS_FROM
    return f"{EVERY[name]}.{'every' if steps else 'every_episodes'}"
