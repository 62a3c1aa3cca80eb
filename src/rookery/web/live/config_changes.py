"""Which keys of a run's config differ from the defaults, and from those of another run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rookery.learners.own_learners import learner_names
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import differences, flat_config

NOT_SHOWN = ("world", "tables", "name", "runs_dir")


def changed_keys(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    """{key: [default, value]} of the keys that somebody set, or rookery chose; of learners' options its own only."""
    defaults = _defaults()
    others = tuple(f"{name}." for name in learner_names() if name != config.get("learner"))
    return {
        key: [defaults.get(key), value]
        for key, value in flat_config(config)
        if value != defaults.get(key) and not key.startswith((*others, "tables.")) and key not in NOT_SHOWN
    }


def config_difference(one: Path, other: Path) -> dict[str, list[Any]]:
    """{key: [of one run, of the other]} of the keys in which two runs differ."""
    return differences([RunDir(one), RunDir(other)])


@cache
def _defaults() -> dict[str, Any]:
    from rookery.config.schema import RunConfig  # late: half a second, which the start of the server does not need

    return dict(flat_config(RunConfig(world="any").model_dump(mode="json")))
