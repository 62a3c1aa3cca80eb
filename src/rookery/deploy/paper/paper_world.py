"""The world of a trained agent on other bars: the same kernel, columns, costs and scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.data.dataset import Dataset
from rookery.data.shared_tables import unshared
from rookery.deploy.paper.market_form import MarketForm, training_world
from rookery.kernel.world import KernelWorld

# Parameters that change neither fills, costs nor observations of an account that has begun.
NOT_RULES = (
    "reward_scale", "benchmark_weight", "absolute_reward", "cash_reward", "concentration_penalty",
    "concentration_limit", "few_positions_penalty", "min_positions", "position_weight", "change_penalty",
    "time_limit", "window", "symbol", "initial_balance",
)  # fmt: skip


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
        return "crypto" in self.config.world.lower()

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
    return type(world).__name__, form, repr(world.observation_space), repr(world.action_space), repr(values)


def first_usable(world: Any, block: int) -> int | None:
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
