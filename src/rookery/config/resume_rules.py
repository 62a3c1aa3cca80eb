"""Which keys may change when a run is resumed: those that its checkpoint does not depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rookery.config.cluster_schema import needs_cluster
from rookery.config.fields import fields
from rookery.config.inputs import build_config
from rookery.config.layers import MISSING, look_up, merge
from rookery.config.schema import RunConfig
from rookery.config.validation import resolve
from rookery.errors import ConfigError
from rookery.learners.registry import option_classes

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
        if not _changeable(key):
            raise ConfigError(_refusal(key, before.learner))
    after = resolve(merge(before.model_dump(exclude_unset=True), changes))
    unread = [key for key in different if key.startswith("cluster.") and key != "cluster.kind"]
    if unread and after.cluster.kind == before.cluster.kind == "local":
        raise needs_cluster(unread[0].partition(".")[2])
    others = tuple(f"{name}." for name in option_classes() if name != before.learner)
    shown = [_change_text(key, before, after) for key in different if not key.startswith(others)]
    return after, f"resumed with {', '.join(shown)}" if shown else ""


def _changeable(key: str) -> bool:
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


def _refusal(key: str, learner: str) -> str:
    section = key.rpartition(".")[0]
    start = f"`{key}` cannot change when a run is resumed; "
    if section in option_classes():
        return f"{start}of {section} these can: {', '.join(sorted(option_classes()[section].adjustable))}"
    sections = ", ".join(f"{name}.*" for name in CHANGEABLE_SECTIONS)
    return (
        f"{start}these can: {', '.join(CHANGEABLE)}, {sections} (but not {FIXED}), and options of the learner such as "
        f"{learner if learner in option_classes() else 'ppo'}.learning_rate"
    )
