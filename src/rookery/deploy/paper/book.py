"""One account in one env of the kernel world, whose tables grow with the bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.deploy.paper.paper_world import lookback_of, usable_rows
from rookery.errors import DataError, WorldError
from rookery.kernel.kernel_env import KernelEnv

ROOM = 4096  # rows that tables have for bars to come, at first
ENDLESS = 2**62  # the last row of an episode without an end
AMOUNTS = ("equity", "cash", "exposure", "turnover", "trades", "fees", "spread_cost", "impact_cost", "funding_cost")
# Parameters with which everything that is held is sold at once, whatever limits an agent has.
CLOSING = {"max_order": 2.0, "min_change": 0.0, "turnover_cap": 1e12}


class Book:
    """The account of a portfolio, or of one currency pair.

    The kernel's tables have room for rows to come: new rows are written behind the known ones, so that an episode
    continues. The compiled functions read the row of the account and the next one only.
    """

    def __init__(self, world: Any, block: int, symbols: tuple[str, ...]) -> None:
        _check_actions(world)
        self.symbols, self._block = symbols, block
        self.row: int | None = None  # of the last bar, once the account has begun
        self.positions = np.zeros(len(symbols))
        self.observation: np.ndarray | None = None
        self.times = np.zeros(0, np.int64)
        self._windows = np.array([[0, ENDLESS]])
        bars, features = self._rows(world)
        self._width, self._lookback = features.shape[1], lookback_of(world)
        self._bars, self._features = bars[:0], features[:0]
        self._normal = {name: world.values[name] for name in CLOSING if name in world.values}
        self._closing = False
        self._world = world
        self.env: Any = None
        self.extend(world)

    def extend(self, world: Any) -> None:
        """Take the new rows of a world that was built on more bars. Rows that are known must not have changed."""
        bars, features = self._rows(world)
        known = len(self.times)
        if len(bars) < known or not (
            np.array_equal(self._bars[:known], bars[:known])
            and np.array_equal(self._features[:known], features[:known])
        ):
            raise DataError(f"{', '.join(self.symbols)}: bars that were traded on have other values now")
        if len(bars) > len(self._bars):
            self._make_room(bars, features)
        else:
            self._bars[known : len(bars)], self._features[known : len(bars)] = bars[known:], features[known:]
        first, last = world.market.blocks[self._block]
        self.times = np.array(world.market.times[first : last + 1])
        self._usable = usable_rows(world, self._block)

    def row_at(self, time: int) -> int | None:
        """The row of the bar that is complete at this time; None if there is none."""
        row = int(np.searchsorted(self.times, time))
        return row if row < len(self.times) and self.times[row] == time else None

    def begin(self, time: int, balance: float) -> None:
        """Begin the account at this bar, with nothing but cash."""
        row = self.row_at(time)
        assert row is not None
        self._windows[0, 0] = row
        self.env = KernelEnv(self._world.with_tables(**self._tables()))
        self.env.set_parameters(window=0, time_limit=0, initial_balance=balance)
        self.observation, _ = self.env.reset(seed=0)
        self.row, self.positions = row, np.zeros(len(self.symbols))
        self.check()

    def step(self, action: Any, closing: bool) -> dict[str, Any]:
        """The next bar: the order that was decided on the last one is filled. Returns what became of the account."""
        if closing != self._closing:
            self.env.set_parameters(**({name: CLOSING[name] for name in self._normal} if closing else self._normal))
            self._closing = closing
        self.observation, reward, terminated, _, info = self.env.step(action)
        assert self.row is not None
        self.row += 1
        held = np.atleast_1d(info["positions"] if "positions" in info else info["position"])
        self.positions = held.astype(np.float64)
        amounts = {name: float(info[name]) for name in AMOUNTS}
        return {**amounts, "positions": held.tolist(), "reward": reward, "terminated": terminated}

    def check(self) -> None:
        """Refuse to decide on a bar with a number that is missing."""
        assert self.row is not None
        if not self._usable[self.row - self._lookback + 1 : self.row + 1].all():
            raise DataError(f"{', '.join(self.symbols)}: a column of the bar has no value")

    def opens(self) -> np.ndarray:
        """The prices at which orders of the last bar were filled."""
        return self._bars[self.row, ..., 0].reshape(-1)

    def hold_action(self) -> Any:
        """The action that orders nothing."""
        return self._world.hold_action(self.env.state, self.observation)

    def closing_action(self) -> Any:
        """The action that sells everything; forex waits for the end of its cooldown."""
        return self._world.closing_action()

    def _rows(self, world: Any) -> tuple[np.ndarray, np.ndarray]:
        first, last = world.market.blocks[self._block]
        features = np.asarray(world.tables["features"]).reshape(len(world.market.times), -1)
        return np.asarray(world.tables["bars"])[first : last + 1], features[first : last + 1]

    def _make_room(self, bars: np.ndarray, features: np.ndarray) -> None:
        """Larger tables. Growing ones do not end an episode."""
        rows = len(bars)
        room = rows + max(rows, ROOM)
        self._bars, self._features = np.zeros((room, *bars.shape[1:])), np.zeros((room, self._width), np.float32)
        self._bars[:rows], self._features[:rows] = bars, features
        if self.env is not None:
            self.env.set_tables(**self._tables())

    def _tables(self) -> dict[str, np.ndarray]:
        tables = {"bars": self._bars, "features": self._features.reshape(-1), "windows": self._windows}
        if "symbol_of" in self._world.tables:
            tables["symbol_of"] = np.full(len(self._bars), self._block, np.int16)
        return tables


def _check_actions(world: Any) -> None:
    """Refuse a world that does not say which actions order nothing and sell everything."""
    for name, what in (("hold_action(state, observation)", "orders nothing"), ("closing_action()", "sells everything")):
        if not callable(getattr(world, name.partition("(")[0], None)):
            raise WorldError(
                f"{world.name} cannot be traded on paper: it needs a method {name}, "
                f"which returns the action that {what}"
            )
