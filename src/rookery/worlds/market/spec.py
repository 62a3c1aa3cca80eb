"""The market worlds, as rookery knows them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.worlds.market.options import OTHER_NAMES
from rookery.worlds.world_spec import WorldOption, WorldSpec


def training_options(options: Mapping[str, Any], steps: int, num_envs: int) -> dict[str, Any]:
    """A run trains on the split "train", unless another is given."""
    return {"split": options.get("split", "train")}


def evaluation_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluations, which choose the best checkpoint, are on bars that nobody trains on.

    The split "test" is for the report, and for nothing before it.

    >>> evaluation_options({}), evaluation_options({"split": "all"})
    ({'split': 'validation'}, {'split': 'all'})
    """
    split = options.get("split", "train")
    usual = "validation" if isinstance(split, str) and split == "train" else split
    return {"split": options.get("evaluation_split") or usual}


OPTIONS = (
    WorldOption("data", "PATH", "bars: a Parquet file or a folder (a synthetic set)", is_folder=True),
    WorldOption("data_dir", "FOLDER", "the same as --data", is_folder=True),
    WorldOption("symbols", "A,B", "which symbols of the data (all)"),
    WorldOption("timeframe", "5m", "the length of a bar; shorter ones are joined (as the data are)"),
    WorldOption("costs", "NAME", "what trading costs: alpaca-crypto, ecn-forex, flat-fee-forex or none"),
    WorldOption("lookback", "N", "the number of bars in an observation"),
)
REPORT = "rookery.training.backtest.backtest:backtest"


def market_spec(name: str, source: str, **own: Any) -> WorldSpec:
    """What all markets have, with a market's `own` fields."""
    return WorldSpec(
        name=name,
        source=source,
        kernels={source: f"rookery.worlds.market.{name}:{name}"},
        is_kernel=True,
        extra="kernel,data",
        recipes="rookery.worlds.market.recipes:RECIPES",
        search_space=f"rookery.worlds.market.search_space:{name.upper()}",
        options=OPTIONS,
        option_names=OTHER_NAMES,
        training_options=training_options,
        evaluation_options=evaluation_options,
        episode_length_option="episode_length",
        report=REPORT,
        **own,
    )


CRYPTO = market_spec(
    "crypto", "rookery/Crypto-v0", examples=("rookery train crypto --data-dir data/5m --timeframe 5m --n-envs 12",)
)
FOREX = market_spec(
    "forex",
    "rookery/Forex-v0",
    discrete_options={"action_type": "discrete"},
    continuous_options={"action_type": "continuous"},
    has_trading_config=True,
    examples=("rookery train forex --data-dir data/forex --symbols EURUSD,GBPUSD",),
)
