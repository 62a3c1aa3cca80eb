"""Which bars the folds of a market world train and test on. The last segment, the world's split "test", is in none."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.config.sections import SearchOptions
from rookery.data.splits import Split, combinatorial_purged
from rookery.errors import OptionError
from rookery.training.backtest.backtest import world_to_test
from rookery.training.backtest.recording import MarketView

GROUPS = 4  # of combinatorial purged cross-validation, unless `search.folds` says otherwise
LAST_SEGMENT = 0.15  # of the bars: the split "test" of a market world
LEAST_BARS = 10  # of a window, beyond the lookback: fewer say nothing
OF_A_SEARCH = {"split": "train", "evaluation_split": "validation"}  # options that a search sets itself


def groups_per_test(groups: int) -> int:
    """How many of the groups a fold tests on: two, and never more than half of them.

    >>> groups_per_test(4), groups_per_test(6), groups_per_test(3)
    (2, 2, 1)
    """
    return min(2, groups // 2)


def groups_by_fold(groups: int) -> list[tuple[int, ...]]:
    """The groups that each fold tests on, in the order of the folds.

    >>> groups_by_fold(4)
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    """
    return list(combinations(range(groups), groups_per_test(groups)))


def market_folds(config: RunConfig, search: SearchOptions) -> list[Split]:
    """The folds of a trial, as positions among the times of the bars: for each, where it trains and where it tests.

    The last segment and the embargo before it are left out. After each test no bar is trained on for `search.embargo`
    bars, or for the lookback if that is longer: an observation would show bars of the test.
    """
    view = market_of(config)
    groups, lookback = search.folds or GROUPS, int(view.world.lookback)
    embargo = max(search.embargo, lookback)
    rows, least = len(np.unique(view.market.times)), lookback + LEAST_BARS
    if groups < 2:
        raise OptionError(f"search.folds = {groups}: cross-validation needs at least 2 groups of bars, such as 4")
    known = rows - round(LAST_SEGMENT * rows) - embargo
    if known // groups < least:
        raise _too_few(rows, groups, embargo, f"a group would have {max(known, 0) // groups}, and needs {least}")
    try:
        folds = combinatorial_purged(known, groups, groups_per_test(groups), embargo=embargo)
    except OptionError as error:
        raise _too_few(rows, groups, embargo, str(error)) from None
    if any(np.diff(fold.train).max(initial=0) < least for fold in folds):
        raise _too_few(rows, groups, embargo, f"training needs a window of {least}")
    return folds


def market_of(config: RunConfig) -> MarketView:
    """All bars of the world that a configuration names."""
    world = world_to_test(config, {"split": "all"}).kernel_world
    if world is None:
        raise OptionError(
            f"{config.world} is no market world: search.metric = sharpe_difference is for crypto and forex"
        )
    return MarketView(world)


def refuse_own_splits(config: RunConfig) -> None:
    """Refuse windows of the user's own: a search could not keep the last segment from its trials."""
    for option, usual in OF_A_SEARCH.items():
        value: Any = config.world_options.get(option, usual)
        if value is not None and value != usual:
            raise OptionError(
                f"world_options.{option} = {value!r}: a search of a market world chooses the bars of its trials, so "
                "that none is shown the last segment; omit this option"
            )


def _too_few(rows: int, groups: int, embargo: int, why: str) -> OptionError:
    """The error for data that are too short."""
    return OptionError(
        f"{rows} bars are too few for search.folds = {groups} groups with search.embargo = {embargo} ({why}): take "
        "more bars, fewer groups or a shorter embargo"
    )
