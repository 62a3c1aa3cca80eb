"""The world in which an agent is tested: that of its run, on other bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config import RunConfig
from rookery.errors import OptionError
from rookery.training.resolve.world_choice import World, find

OF_RUNS = ("split", "evaluation_split", "window")  # options that say on which bars a run trains and evaluates


def world_to_test(config: RunConfig, changes: Mapping[str, Any], world: str | None = None) -> World:
    """The world of a run's configuration, or another one, with these options changed, `split` among them. Options for
    training and for evaluations do not count here."""
    if config.wrappers:
        raise OptionError(f"wrappers: the run has {', '.join(config.wrappers)}, and a backtest needs the world itself")
    omitted = (*OF_RUNS, *(("data_dir",) if "data" in changes else ()))  # another name of `data`
    options = config.world_options if world is None else {}
    given = {name: value for name, value in options.items() if name not in omitted}
    return find(world or config.world, config.takes_twin, config.learner, {**given, **changes})
