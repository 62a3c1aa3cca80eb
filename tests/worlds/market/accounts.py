"""Random orders in market worlds, and the same orders as vectorbt fills them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rookery.data.dataset import Dataset
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import forex
from worlds.market.market_bars import random_bars

FEE, HALF_SPREAD, SLIPPAGE = 0.001, 0.0004, 0.0001
RATE = FEE + HALF_SPREAD + SLIPPAGE  # vectorbt has one fee for all of them
COSTS = {"preset": "none", "fee": FEE, "half_spread": HALF_SPREAD, "slippage": SLIPPAGE}
BALANCE, BARS, LOOKBACK = 100_000.0, 60, 2
COMMON: dict[str, Any] = {"costs": COSTS, "columns": "noise", "lookback": LOOKBACK, "window": 0, "time_limit": 0}
FREE: dict[str, Any] = {"cooldown": 0, "turnover_cap": 1e9, "daily_drawdown": 1.0, "min_change": 0.0, "leverage": 0.5}
COINS = ("BTC/USD", "ETH/USD", "SOL/USD")


class Account(NamedTuple):
    """What a world says after each bar: the rows of the bars, the account's value, and the units held."""

    rows: np.ndarray
    equity: np.ndarray
    units: np.ndarray  # (steps, assets)


def prices(data: Dataset, column: str) -> np.ndarray:
    return np.stack([bars[column] for bars in data.bars], axis=1)


def play(env: KernelEnv, world: Any, actions: Any, positions: str) -> Account:
    env.set_tables(**world.tables)
    env.reset(seed=1)
    infos = [env.step(action)[4] for action in actions]
    units = np.array([np.atleast_1d(info[positions]) for info in infos])
    return Account(np.array([info["row"] for info in infos]), np.array([info["equity"] for info in infos]), units)


class Case(NamedTuple):
    """One kind of world. `targets` has the wanted part of the account in each asset, NaN where nothing is ordered; None
    where vectorbt is given the numbers of units."""

    make: Callable[[Dataset], Any]
    symbols: tuple[str, ...]
    positions: str
    draw: Callable[[np.random.Generator, int], Any]
    targets: Callable[[Any], np.ndarray] | None


def changes(wanted: np.ndarray) -> np.ndarray:
    """Of wanted positions, those that differ from the one before."""
    before = np.concatenate([[0.0], wanted[:-1]])
    return np.where(wanted != before, 0.5 * wanted, np.nan)[:, None]


CASES = {
    "forex discrete": Case(
        lambda data: forex(data=data, **COMMON, **FREE), ("EURUSD",), "position",
        lambda rng, steps: rng.integers(0, 3, steps),
        lambda actions: changes(actions - 1.0),
    ),
    "forex continuous": Case(
        lambda data: forex(data=data, action_type="continuous", **COMMON, **FREE), ("EURUSD",), "position",
        lambda rng, steps: rng.uniform(-1, 1, (steps, 1)).astype(np.float32),
        lambda actions: changes(actions[:, 0].astype(float)),
    ),
    "crypto weights": Case(
        lambda data: crypto(data=data, action_type="weights", min_change=0.0, min_order=0.0, hold_limit=0, **COMMON),
        COINS, "positions",
        lambda rng, steps: rng.uniform(-1, -0.4, (steps, 3)).astype(np.float32),
        lambda actions: (actions.astype(float) + 1.0) / 2.0,
    ),
    "crypto orders": Case(
        lambda data: crypto(data=data, hold_limit=7, forced_sale=0.3, **COMMON), COINS, "positions",
        lambda rng, steps: rng.uniform(-1, 1, (steps, 3)).astype(np.float32),
        None,
    ),
}  # fmt: skip


def vectorbt_equity(case: Case, data: Dataset, actions: Any, account: Account) -> np.ndarray:
    """The value of vectorbt's portfolio at the close of the same bars: orders fill at the open, sales first."""
    import vectorbt

    rows = account.rows
    orders: dict[str, Any]
    if case.targets is None:
        before = np.concatenate([np.zeros((1, account.units.shape[1])), account.units[:-1]])
        orders = {"size": np.where(account.units != before, account.units - before, np.nan), "size_type": "amount"}
    else:
        orders = {"size": case.targets(actions), "size_type": "targetpercent"}
    portfolio = vectorbt.Portfolio.from_orders(
        prices(data, "close")[rows], price=prices(data, "open")[rows], val_price=prices(data, "close")[rows - 1],
        fees=RATE, init_cash=BALANCE, direction="both", group_by=True, cash_sharing=True, call_seq="auto", freq="1h",
        **orders,
    )  # fmt: skip
    return portfolio.value().to_numpy()


def worst_difference(name: str, sequences: int, change: Callable[[Any], None] = lambda world: None) -> float:
    """The largest relative difference to vectorbt's equity, over random bars and random orders. `change` may break the
    tables of the world."""
    case, worst, env = CASES[name], 0.0, None
    for seed in range(sequences):
        data = random_bars(case.symbols, count=BARS, seed=seed)
        world = case.make(data)
        change(world)
        env = env or KernelEnv(world, plain=True)
        actions = case.draw(np.random.default_rng(seed), BARS - LOOKBACK)
        account = play(env, world, actions, case.positions)
        theirs = vectorbt_equity(case, data, actions, account)
        worst = max(worst, float(np.abs(account.equity / theirs - 1.0).max()))
    return worst
