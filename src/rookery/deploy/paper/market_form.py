"""What of the market an agent was trained on paper trading must repeat: symbols, columns, timeframe and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.data.timeframes import timeframe_seconds
from rookery.engine.env_factory import kernel_of
from rookery.errors import DataError, OptionError
from rookery.training.backtest.backtest import world_to_test
from rookery.worlds.built_in_worlds import market_evaluation
from rookery.worlds.market.market_options import names, with_own_names


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
        raise OptionError(f"{config.world} is no market world: paper trading is for crypto and forex")
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
