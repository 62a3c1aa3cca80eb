"""Plays an agent in the fixed windows of a market world, and records every step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from rookery.data.features import memory
from rookery.engine.engine import Engine
from rookery.engine.env_factory import kernel_of
from rookery.engine.make_vec import make_vec
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.learners.action_spaces import mask_of
from rookery.learners.agent import Agent
from rookery.training.backtest.figures import bars_per_year
from rookery.training.backtest.records import MarketFacts, WindowRecord
from rookery.training.players.agents import AgentPlayer
from rookery.training.resolve.world_choice import World
from rookery.worlds.market import forex_account_rules as account
from rookery.worlds.market.crypto_rules import FUNDING, SPREAD
from rookery.worlds.market.forex_rules import (
    CLOSE,
    DAY,
    DAYS_A_YEAR,
    LONG_AMOUNT,
    LONG_RATE,
    MILLION,
    OPEN,
    RATE_CLOSE,
    RATE_OPEN,
    TRIPLE,
    rollovers,
)
from rookery.worlds.market.forex_rules import FUNDING as PAIR_FUNDING
from rookery.worlds.market.forex_rules import SPREAD as PAIR_SPREAD
from rookery.worlds.market.perpetual_rules import FUNDING_TIMES

# Info columns of a market world; of costs, our name -> its name.
AMOUNTS = ("equity", "cash", "exposure", "turnover", "trades")
COST_COLUMNS = {"fees": "fees", "spread": "spread_cost", "impact": "impact_cost", "funding": "funding_cost"}
POSITIONS = ("positions", "position")


def record_windows(
    world: World, agent: Agent, *, deterministic: bool = True, seed: int = 0, windows: Sequence[int] | None = None
) -> tuple[list[WindowRecord], MarketFacts]:
    """One record per window of the world's split, or of some, by number; and the facts about its bars. How a window
    goes depends on that window alone: all of them are played side by side, and none sees the others."""
    kernel = kernel_of(world.factory, build=True) if world.kernel else None
    if kernel is None:
        raise OptionError(
            f"{world.name} is not a market world that can be backtested: it should be crypto, forex or a kernel world "
            "like them, without wrappers"
        )
    view = MarketView(kernel.world)
    check_spaces(world.name, kernel.world, agent)
    numbers = np.arange(len(view.windows)) if windows is None else np.asarray(windows)
    player = AgentPlayer(agent, "agent", deterministic=deterministic, copy=False)
    return play_windows(view, world.factory, lambda engine: player, numbers, seed), view.facts()


def play_windows(
    view: MarketView, world: Any, player_for: Callable[[Any], WindowPlayer], numbers: np.ndarray, seed: int = 0,
    **parameters: Any,
) -> list[WindowRecord]:  # fmt: skip
    """The records of these windows, played by what `player_for` returns for the engine. `world` is what `make_vec`
    takes; parameters of the world have one value, or one per window."""
    alone = len(numbers) - 1 or None  # makes an engine whose envs can be stepped one by one
    engine: Any = make_vec(world, len(numbers), "kernel", 1, batch_size=alone, autoreset_mode="Disabled", copy=False)
    try:
        engine.set_parameters(window=numbers, time_limit=0, **parameters)
        return _Recording(view, engine, player_for(engine), seed, numbers).run()
    finally:
        engine.close()


class WindowPlayer(Protocol):
    """Acts in windows, which are given by their places, as an `AgentPlayer` does."""

    @property
    def action_space(self) -> spaces.Space:
        """Of its actions."""

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        """These windows begin."""

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> Any:
        """Actions for the next bar of these windows."""


def check_spaces(name: str, kernel_world: Any, agent: Agent) -> None:
    """Refuse a world with other observations or actions than the agent's."""
    for what, mine, theirs in (
        ("observes", agent.observation_space, kernel_world.observation_space),
        ("acts in", agent.action_space, kernel_world.action_space),
    ):
        if mine != theirs:
            raise OptionError(
                f"the agent {what} {mine}, and {name} has {theirs}: give it the symbols, columns and lookback "
                "that the agent was trained with"
            )


class _Recording:
    """The windows that are played side by side: arrays by column, (windows, steps of the longest)."""

    def __init__(self, view: MarketView, engine: Engine, player: WindowPlayer, seed: int, numbers: np.ndarray) -> None:
        self._view, self._engine, self._player, self._seed, self._numbers = view, engine, player, seed, numbers
        self._room = (len(numbers), int(np.diff(view.windows[numbers]).max()))
        self._columns: dict[str, np.ndarray] = {}
        self._lengths = np.zeros(len(numbers), np.int64)
        self._ruined = np.zeros(len(numbers), bool)

    def run(self) -> list[WindowRecord]:
        """Play all windows to their ends."""
        engine, rows = self._engine, np.arange(self._room[0])
        seeds = [child_seed(self._seed, window) for window in self._numbers.tolist()]
        observations, infos = engine.reset(seed=seeds)
        self._player.begin(rows, seeds)
        mask = mask_of(observations, infos, self._player.action_space)
        for step in range(self._room[1]):
            actions = self._player.act(observations, rows, mask)
            if len(rows) == engine.num_envs:
                observations, rewards, terminated, truncated, infos = engine.step(actions)
            else:
                engine.send(actions, rows)
                observations, rewards, terminated, truncated, infos = engine.recv()
            self._keep(step, rows, {**infos, "rewards": rewards})
            self._ruined[rows] = terminated
            mask = mask_of(observations, infos, self._player.action_space)
            playing = ~(terminated | truncated)
            if not playing.all():
                rows = rows[playing]
                if not len(rows):
                    break
                observations = engine.batch.observations.take(rows, True)
                mask = None if mask is None else mask[playing]
        return [self._record(place, int(number)) for place, number in enumerate(self._numbers)]

    def _keep(self, step: int, rows: np.ndarray, found: dict[str, Any]) -> None:
        if not self._columns:
            position = next((name for name in POSITIONS if name in found), None)
            wanted = (*AMOUNTS, *COST_COLUMNS.values(), position or POSITIONS[0], "row", "rewards")
            missing = [name for name in wanted if name not in found]
            if missing:
                raise OptionError(f"{self._view.world.name} has no info {missing[0]!r}, which a backtest records")
            self._columns = {name: np.zeros((*self._room, *found[name].shape[1:])) for name in wanted}
        for name, column in self._columns.items():
            column[rows, step] = found[name]
        self._lengths[rows] = step + 1

    def _record(self, place: int, window: int) -> WindowRecord:
        view, length = self._view, int(self._lengths[place])
        kept = {name: column[place, :length] for name, column in self._columns.items()}
        rows = np.concatenate([view.windows[window, :1], kept["row"].astype(np.int64)])
        opens, closes = view.prices(rows)
        position = next(name for name in POSITIONS if name in kept)
        return WindowRecord(
            symbols=view.symbols(window),
            times=np.asarray(view.market.times)[rows],
            equity=np.concatenate([[view.cash], kept["equity"]]),
            opens=opens,
            closes=closes,
            positions=kept[position].reshape(length, -1),
            cash=kept["cash"],
            exposure=kept["exposure"],
            turnover=kept["turnover"],
            trades=kept["trades"],
            rewards=kept["rewards"],
            costs={ours: kept[theirs] for ours, theirs in COST_COLUMNS.items()},
            entry_cost=view.entry_cost(rows),
            carry=view.carry(rows),
            ruined=bool(self._ruined[place]),
        )


RATES = ("fee", "half_spread", "slippage", "impact", "swap_long", "swap_short", "funding", "borrow")


class MarketView:
    """A market world as a backtest sees it."""

    def __init__(self, world: Any) -> None:
        for name in ("market", "windows", "costs"):
            if not hasattr(world, name):
                raise OptionError(f"{world.name} is not a market world: a backtest needs its `{name}`")
        self.world, self.market = world, world.market
        self.windows = np.asarray(world.windows)
        self.bars = np.asarray(self.market.bars)
        self.is_portfolio = self.bars.ndim == 3
        self.converts = self.is_portfolio and "swaps" in world.tables  # an account of currency pairs

    @property
    def cash(self) -> float:
        """What an account begins with."""
        return float(self.world.values["initial_balance"])

    @property
    def reach(self) -> int:
        """How many bars an observation knows of: those that it shows, and those that its features are made of."""
        return int(self.world.lookback) + memory(self.market.columns)

    def symbols(self, window: int) -> tuple[str, ...]:
        """The symbols that can be traded in a window."""
        if self.is_portfolio:
            return tuple(self.market.symbols)
        first = self.windows[window, 0]
        return (self.market.symbols[int(np.searchsorted(self.market.blocks[:, 1], first))],)

    def prices(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Opens and closes of these rows, (rows, symbols), in the currency of the account.

        A pair that earns another currency gets the value of one unit that is bought at the first open that can be
        traded, with its gains converted as its world converts them: all of them at the rate of now in an account of
        several pairs, each at the rate at which it was made in one of a single pair.
        """
        bars = self.bars[rows]
        if self.converts:
            entry = bars[min(1, len(rows) - 1)]
            start = entry[:, OPEN] * entry[:, account.RATE_OPEN]
            opens, closes = (
                start + (bars[:, :, price] - entry[:, OPEN]) * bars[:, :, rate]
                for price, rate in ((OPEN, account.RATE_OPEN), (CLOSE, account.RATE_CLOSE))
            )
            return opens, closes
        if self.is_portfolio:
            return bars[:, :, OPEN].copy(), bars[:, :, CLOSE].copy()
        opens, closes = bars[:, OPEN], bars[:, CLOSE]
        if (bars[:, RATE_OPEN] == 1).all() and (bars[:, RATE_CLOSE] == 1).all():
            return opens[:, None].copy(), closes[:, None].copy()
        overnight = (opens[1:] - closes[:-1]) * bars[1:, RATE_OPEN]
        inside = (closes[1:] - opens[1:]) * bars[1:, RATE_CLOSE]
        start = float((bars[:, OPEN] * bars[:, RATE_OPEN])[min(1, len(rows) - 1)])
        first_close = start - (overnight[0] if len(overnight) else 0.0)
        later = first_close + np.cumsum(overnight + inside)
        value_at_close = np.concatenate([[first_close], later])
        value_at_open = np.concatenate([[first_close], value_at_close[:-1] + overnight])
        return value_at_open[:, None], value_at_close[:, None]

    def entry_cost(self, rows: np.ndarray) -> np.ndarray:
        """What buying at the first open costs, as a part of the value, one number per symbol."""
        values = self.world.values
        first = self.bars[rows[min(1, len(rows) - 1)]]
        spread = first[:, SPREAD] if self.is_portfolio else first[PAIR_SPREAD : PAIR_SPREAD + 1]
        traded = self.cash / len(spread)
        flat = values["half_spread"] + values["slippage"] + values["impact"] * traded / MILLION
        return np.asarray(values["fee"], float) + flat + spread

    def carry(self, rows: np.ndarray) -> np.ndarray:
        """What a long position pays at each bar after the first, as a part of its value."""
        bars, values = self.bars[rows], self.world.values
        if self.converts:
            pairs = range(bars.shape[1])
            return np.stack([self._swaps(bars[:, i, account.DAY], bars[:, i, CLOSE], i) for i in pairs], axis=1)
        if self.is_portfolio:
            due = bars[1:, :, FUNDING_TIMES] if bars.shape[2] > FUNDING_TIMES else 1.0
            return values["funding"] * due + bars[1:, :, FUNDING]
        pair = int(np.searchsorted(self.market.blocks[:, 1], rows[0]))
        return (values["funding"] + bars[1:, PAIR_FUNDING] + self._swaps(bars[:, DAY], bars[:, CLOSE], pair))[:, None]

    def _swaps(self, days: np.ndarray, closes: np.ndarray, pair: int) -> np.ndarray:
        """What a long position pays for the nights before each bar after the first, as a part of its value."""
        found = self.world.values["swap_long"] * np.diff(days) / DAYS_A_YEAR
        if "swaps" not in self.world.tables:
            return found
        swaps = self.world.tables["swaps"][pair]
        known, place = np.unique(days, return_inverse=True)
        nights = np.diff(np.array([rollovers(day - 1.0, swaps[TRIPLE]) for day in known.tolist()])[place])
        return found + nights * (swaps[LONG_AMOUNT] / closes[:-1] + swaps[LONG_RATE] / DAYS_A_YEAR)

    def facts(self) -> MarketFacts:
        """What the report says about the bars and the costs."""
        market, costs = self.market, self.world.costs
        a_year, how = bars_per_year(np.unique(market.times), market.timeframe, market.calendar)
        return MarketFacts(
            timeframe=market.timeframe,
            calendar=market.calendar,
            periods_per_year=a_year,
            annualised_with=how,
            costs_name=costs.name if not self._changed() else f"{costs.name}, changed",
            costs_rates=(*costs.describe(), *self._broker(), *self._changed()),
            synthetic=bool(market.synthetic),
            source=str(market.place),
            fingerprint=self._hash(),
        )

    def _broker(self) -> list[str]:
        broker = getattr(self.world, "broker", None)
        return [] if broker is None else broker.describe(self.market.symbols)

    def _changed(self) -> tuple[str, ...]:
        """Rates that an option of the world has set to another value than the costs name."""
        found = []
        for kind in RATES:
            named = getattr(self.world.costs, kind, None)
            if kind in self.world.values and isinstance(named, (int, float)):
                used = np.asarray(self.world.values[kind], float)
                if not (used == named).all():
                    found.append(
                        f"but {kind.replace('_', ' ')} {'/'.join(f'{100 * x:.6g} %' for x in used.reshape(-1))}"
                    )
        return tuple(found)

    def _hash(self) -> str:
        digest = hashlib.sha256(repr((self.market.symbols, self.bars.shape)).encode())
        for array in (self.market.times, self.bars):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]
