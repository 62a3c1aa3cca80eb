"""A standalone agent on bars as they come, in other programs: which positions it wants, bar after bar.

The world that trained the agent computes the features and keeps an account beside the other program's own, by the same
rules and costs: what an agent observes of its positions is of this account. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.features import memory
from rookery.data.shared_tables import unshared
from rookery.errors import OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import forex
from rookery.worlds.market.forex_rules import CLOSE, OPEN, RATE_CLOSE, RATE_OPEN

WORLDS = {"crypto": crypto, "forex": forex}
ENDLESS = 2**62


class MarketAccount:
    """Follows an agent.

    Args:
        agent: Has `act(observation)` and `reset()`: an exported agent.
        world: "crypto" or "forex".
        options: Of the world, as the agent was trained with; `symbols` and `columns` among them.
        plain: Run the world as plain Python; if omitted, only where Numba is missing, which makes it much faster.
    """

    def __init__(self, agent: Any, world: str, options: Mapping[str, Any], plain: bool | None = None) -> None:
        if world not in WORLDS:
            raise OptionError(f"world should be one of {', '.join(WORLDS)}, got {world!r}")
        self._agent, self._make, self._options = agent, WORLDS[world], dict(options)
        self._together = world == "crypto"  # whether all symbols are one portfolio
        self._plain = find_spec("numba") is None if plain is None else plain
        self._books: list[_Book] = []

    def targets(self, data: Dataset) -> dict[str, np.ndarray]:
        """For each symbol, after each of its bars, the position that the agent wants as a part of its account; negative
        if short. A call with more bars than the last one continues; with other bars it begins again."""
        wanted = {bars.symbol: np.zeros(len(bars)) for bars in data.bars}
        least = memory(self._options["columns"]) + int(self._options["lookback"])
        if min(len(bars) for bars in data.bars) < least:
            return wanted
        with unshared():
            world: Any = self._make(**self._options, data=_with_room(data, self._together), split="all")
        market = world.market
        if not self._books or not all(book.continues(world) for book in self._books):
            self._books = [_Book(self._agent, world, block, self._plain) for block in range(len(market.blocks))]
        for number, book in enumerate(self._books):
            book.follow(world)
            for place, symbol in enumerate(market.symbols if self._together else market.symbols[number : number + 1]):
                wanted[symbol][np.searchsorted(data[symbol].times, book.times)] = book.wanted[:, place]
        return wanted


def _with_room(data: Dataset, together: bool) -> Dataset:
    """The bars that all symbols of a portfolio have, and behind them one that is only supposed, like the last."""
    if together:
        data = data.select(end=min(int(bars.times[-1]) for bars in data.bars))
    return replace(data, bars=tuple(_longer(bars, data.timeframe) for bars in data.bars))


def _longer(bars: Bars, timeframe: int) -> Bars:
    columns = {name: np.append(values, values[-1]) for name, values in bars.columns.items()}
    return Bars(bars.symbol, np.append(bars.times, bars.times[-1] + timeframe), columns)


class _Book:
    """One account: of a portfolio, or of one currency pair. The last row of its world is only supposed."""

    def __init__(self, agent: Any, world: Any, block: int, plain: bool) -> None:
        self._agent, self._block = agent, block
        self.times, self.wanted = np.zeros(0, np.int64), np.zeros((0, 1))
        self._windows = np.array([[0, ENDLESS]])
        self._row = -1  # the last bar that was looked at
        self._action: Any = None  # what the agent decided there; None if it could not
        self._env = KernelEnv(world.with_tables(**self._tables(world)), plain=plain)

    def continues(self, world: Any) -> bool:
        """Whether the known bars are the first ones of this world's."""
        first, last = world.market.blocks[self._block]
        return bool(np.array_equal(self.times, world.market.times[first:last][: len(self.times)]))

    def follow(self, world: Any) -> None:
        """Decide on the bars that are new."""
        first, last = (int(row) for row in world.market.blocks[self._block])
        known, self.times = len(self.times), np.array(world.market.times[first:last])
        self._env.set_tables(**self._tables(world))
        wanted = np.zeros((len(self.times), np.size(self._bars[0, ..., OPEN])))
        wanted[:known] = self.wanted[:known]
        usable, begins = self._usable(world, first, last)
        for row in range(self._row + 1, len(self.times)):
            self._row = row
            if usable[row] and self._look(row, bool(begins[row])):
                wanted[row] = self._supposed(row)
        self.wanted = wanted

    def _tables(self, world: Any) -> dict[str, np.ndarray]:
        """Those of this account's rows."""
        first, last = (int(row) for row in world.market.blocks[self._block])
        rows = slice(first, last + 1)
        features = np.asarray(world.tables["features"]).reshape(len(world.market.times), -1)
        self._bars = np.array(world.tables["bars"][rows])
        tables = {"bars": self._bars, "features": features[rows].reshape(-1), "windows": self._windows}
        if "symbol_of" in world.tables:
            tables["symbol_of"] = np.full(len(self._bars), self._block, np.int16)
        return tables

    @staticmethod
    def _usable(world: Any, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """In which rows the agent can decide, and at which of them an episode begins: after a gap too."""
        usable, begins = np.zeros(last - first + 1, bool), np.zeros(last - first + 1, bool)
        for start, end in world.market.stretches:
            row = start - first + world.lookback - 1
            if first <= start <= last and row <= end - first:
                usable[row : end - first + 1], begins[row] = True, True
        return usable, begins

    def _look(self, row: int, begins: bool) -> bool:
        """Take the account to this bar and decide; False once it is lost."""
        if begins:
            self._windows[0, 0] = row
            self._env.set_parameters(window=0, time_limit=0)
            observation, _ = self._env.reset(seed=0)
            self._agent.reset()
        elif self._action is None:
            return False
        else:
            observation, _, lost, _, _ = self._env.step(self._action)
            if lost:
                self._action = None
                return False
        self._action = np.asarray(self._agent.act(np.array(observation)), self._env.action_space.dtype)
        return True

    def _supposed(self, row: int) -> np.ndarray:
        """The position as a part of the account if the next bar were one price, the last close: what the decision means
        before anybody knows where its orders fill. Then everything is as it was."""
        state, after, last = self._env.get_state(), self._bars[row + 1].copy(), self._bars[row]
        self._bars[row + 1] = last
        self._bars[row + 1, ..., OPEN] = last[..., CLOSE]
        if last.ndim == 1:
            self._bars[row + 1, RATE_OPEN] = last[RATE_CLOSE]
        *_, info = self._env.step(self._action)
        self._bars[row + 1] = after
        self._env.set_state(state)
        if last.ndim == 1:
            return np.array([np.sign(info["position"]) * info["exposure"]])
        return info["positions"] * last[:, CLOSE] / max(float(info["equity"]), 1e-9)
