"""At which bar an account begins."""

from __future__ import annotations

import numpy as np

from rookery.config import RunConfig
from rookery.console import say
from rookery.data.dataset import Dataset
from rookery.data.feeds.fetch import time_name
from rookery.deploy.paper.arrived_bars import all_times
from rookery.deploy.paper.market_form import MarketForm, last_training_time
from rookery.deploy.paper.paper_world import PaperWorld, first_usable
from rookery.errors import DataError, OptionError


def first_bar(config: RunConfig, form: MarketForm, dataset: Dataset, given: int | None) -> int:
    """The first bar to decide on: the one that is given, or the first after the bars that the agent was trained and
    chosen on; in any case one at which all features have a value."""
    earliest = first_decision(config, form, dataset)
    wanted = _after_training(config, int(all_times(dataset)[-1])) if given is None else given
    times = all_times(dataset)
    times = times[times >= max(earliest, wanted)]
    if not len(times):
        raise OptionError(f"start {time_name(wanted)} is after the last bar, {time_name(int(all_times(dataset)[-1]))}")
    return int(times[0])


def first_decision(config: RunConfig, form: MarketForm, dataset: Dataset) -> int:
    """The first time at which every account has all numbers of an observation."""
    world = PaperWorld(config, form).build(dataset)
    found = []
    for block, (first, _) in enumerate(world.market.blocks):
        row = first_usable(world, block)
        if row is None:
            raise DataError(
                f"{dataset.place or 'the data'}: {len(dataset.bars[block])} bars are too few for the features of the "
                "agent: give more, of a feed with --history"
            )
        found.append(int(world.market.times[first + row]))
    return int(np.max(found))


def _after_training(config: RunConfig, last: int) -> int:
    """The time after the bars of training and evaluation, if there are bars after them."""
    try:
        trained = last_training_time(config)
    except DataError:  # the training data are gone
        return 0
    if trained >= last:
        say("the agent was trained or chosen on these bars: what it earns on them says nothing about others")
        return 0
    return trained + 1
