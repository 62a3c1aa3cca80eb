"""The world of a trained agent on other bars: the same kernel, symbols, columns, costs and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.console import say
from rookery.data.calendars import timeframe_seconds
from rookery.data.dataset import Dataset
from rookery.data.feeds.fetch import time_name
from rookery.data.shared_tables import unshared
from rookery.deploy.paper.bar_sources import all_times
from rookery.engine.env_factory import kernel_of
from rookery.errors import DataError, OptionError
from rookery.kernel.world import KernelWorld
from rookery.training.backtest.backtest import world_to_test
from rookery.worlds.built_in_worlds import market_evaluation
from rookery.worlds.market.market_options import names, with_own_names

# Parameters that change neither fills, costs nor observations of an account that has begun.
NOT_RULES = (
    "reward_scale", "benchmark_weight", "absolute_reward", "cash_reward", "concentration_penalty",
    "concentration_limit", "few_positions_penalty", "min_positions", "position_weight", "change_penalty",
    "time_limit", "window", "symbol", "initial_balance",
)  # fmt: skip


@dataclass(frozen=True)
class MarketForm:
    """The form of the market that an agent knows.

    Attributes:
        symbols: In the order of its actions.
        columns: What it observes of each bar.
        timeframe: Seconds per bar.
        calendar: When the market is open.
        powers: With `scaling = "power"`, the factor of each number of a row, by the first rows of the training data;
            one list per block of rows (a symbol, or the portfolio). Other scalings do not depend on the data.
    """

    symbols: tuple[str, ...]
    columns: tuple[str, ...]
    timeframe: int
    calendar: str
    powers: tuple[tuple[float, ...], ...] | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> MarketForm:
        powers = saved["powers"]
        return cls(
            tuple(saved["symbols"]), tuple(saved["columns"]), saved["timeframe"], saved["calendar"],
            None if powers is None else tuple(map(tuple, powers)),
        )  # fmt: skip


def form_of(config: RunConfig) -> MarketForm:
    """The form of a run's market. It needs the data of the run, unless the options of its world say everything."""
    options = with_own_names(config.world_options)
    powers = None
    try:
        market = training_world(config).market
        if options.get("scaling") == "power":
            powers = _powers(config)
    except DataError as error:
        symbols, columns = names("symbols", options.get("symbols")), names("columns", options.get("columns"))
        if not (symbols and columns and options.get("timeframe")) or options.get("scaling") == "power":
            raise DataError(
                f"the bars that the agent was trained on cannot be read ({error}), and they say what it observes: put "
                "them back, or train with the options symbols, columns and timeframe"
            ) from None
        calendar = "forex" if "forex" in config.world.lower() else "24/7"
        return MarketForm(symbols, columns, timeframe_seconds(options["timeframe"]), calendar)
    return MarketForm(market.symbols, market.columns, market.timeframe, market.calendar, powers)


def training_world(config: RunConfig, **changes: Any) -> Any:
    """The world of a run on all of its data, or with other options."""
    found = world_to_test(config, {"split": "all", **changes})
    kernel = kernel_of(found.factory, build=True) if found.kernel else None
    if kernel is None or not hasattr(kernel.world, "market"):
        raise OptionError(
            f"{config.world} is not a market world: paper trading is for crypto, perpetuals, forex and forex-account"
        )
    if "equity" not in kernel.world.info:
        raise OptionError(
            f"{config.world} with this layout has no account, only rewards without costs: train with layout=rookery"
        )
    return kernel.world


def last_training_time(config: RunConfig) -> int:
    """The last bar that the run was trained or evaluated on."""
    options = with_own_names(config.world_options)
    splits = (options.get("split", "train"), market_evaluation(config.world_options)["split"])
    worlds: Sequence[Any] = [training_world(config, split=split) for split in splits]
    return max(int(world.market.times[world.windows[:, 1]].max()) for world in worlds)


def _powers(config: RunConfig) -> tuple[tuple[float, ...], ...]:
    """The factors between scaled and unscaled columns. Both are exact, as the factors are powers of two."""
    scaled = training_world(config).market
    plain = training_world(config, scaling="none").market
    found = []
    for first, last in scaled.blocks:
        used, raw = (np.asarray(market.features[first : last + 1], np.float64) for market in (scaled, plain))
        rows, places = (raw != 0).argmax(axis=0), np.arange(raw.shape[1])
        divisor = np.where(raw[rows, places] == 0, 1.0, raw[rows, places])
        found.append(tuple(np.where(raw[rows, places] == 0, 1.0, used[rows, places] / divisor).tolist()))
    return tuple(found)


@dataclass(frozen=True)
class PaperWorld:
    """Makes the kernel world of a run's configuration for bars of the form that the agent knows."""

    config: RunConfig
    form: MarketForm

    @property
    def books(self) -> tuple[tuple[str, ...], ...]:
        """The symbols of each account: a portfolio has one account, currency pairs have one each."""
        return (self.form.symbols,) if self.is_portfolio else tuple((symbol,) for symbol in self.form.symbols)

    @property
    def is_portfolio(self) -> bool:
        return any(name in self.config.world.lower() for name in ("crypto", "perpetuals", "account"))

    def build(self, dataset: Dataset) -> Any:
        """The world on all of these bars, with tables in this process's own memory."""
        form = self.form
        changes: dict[str, Any] = {
            "data": dataset, "symbols": list(form.symbols), "columns": list(form.columns), "timeframe": form.timeframe,
        }  # fmt: skip
        if form.powers is not None:
            changes["scaling"] = "none"
        with unshared():
            world: Any = training_world(self.config, **changes)
        return world if form.powers is None else _scaled(world, form.powers)


def rules_of(world: KernelWorld, form: MarketForm) -> tuple[Any, ...]:
    """What two agents must have in common for one to take over the account of the other as it is."""
    values = tuple((name, np.asarray(value).tolist()) for name, value in world.values.items() if name not in NOT_RULES)
    spaces, broker = (world.observation_space, world.action_space), getattr(world, "broker", None)
    return type(world).__name__, form, repr(spaces), repr(values), repr(broker)


def _first_usable(world: Any, block: int) -> int | None:
    """The first row of a block at which an agent can decide: the second at which all numbers of its observation are
    known, without a gap before it. A world cannot be built on fewer rows."""
    first, last = world.market.blocks[block]
    lookback = lookback_of(world)
    rows = [begin - first + lookback for begin, end in world.market.stretches
            if first <= begin <= last and end - begin >= lookback]  # fmt: skip
    return int(min(rows)) if rows else None


def usable_rows(world: Any, block: int) -> np.ndarray:
    """Which rows of a block have all their numbers."""
    first, last = world.market.blocks[block]
    usable = np.zeros(last - first + 1, np.int64)
    for begin, end in world.market.stretches:
        if first <= begin <= last:
            usable[begin - first : end - first + 1] = 1
    return usable


def lookback_of(world: Any) -> int:
    """Bars in an observation."""
    return world.table_window.size // world.market.features.shape[1]


def _scaled(world: Any, powers: tuple[tuple[float, ...], ...]) -> Any:
    """With features times the factors of the training data. A power of two changes no digit."""
    features = np.array(world.market.features, np.float32)
    for (first, last), factors in zip(world.market.blocks, powers, strict=True):
        features[first : last + 1] *= np.array(factors, np.float32)
    return world.with_tables(features=features.reshape(-1))


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
        row = _first_usable(world, block)
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
