"""The world in which an agent is tested: that of its run, on other bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.config import RunConfig
from rookery.errors import OptionError
from rookery.training.resolve.world_choice import World, find
from rookery.worlds import registry

OF_RUNS = ("split", "evaluation_split", "window")  # options that say on which bars a run trains and evaluates


def world_to_test(config: RunConfig, changes: Mapping[str, Any], world: str | None = None) -> World:
    """The world of a run's configuration, or another one, with these options changed, `split` among them. Options for
    training and for evaluations do not count here."""
    if config.wrappers:
        raise OptionError(f"wrappers: the run has {', '.join(config.wrappers)}, and a backtest needs the world itself")
    name = world or config.world
    spec = registry.get(name) or registry.by_source(name)
    meant = {} if spec is None else spec.option_names  # `data_dir` is another name of `data`
    omitted = {*OF_RUNS, *(meant.get(option, option) for option in changes)}
    options = config.world_options if world is None else {}
    given = {option: value for option, value in options.items() if meant.get(option, option) not in omitted}
    return find(name, config.takes_twin, config.learner, {**given, **changes})
