"""Parity: the log of an account against a backtest on the same bars, to the last bit.

The bars of the log are given to the world as one complete series, and the agents decide again, in one batch of windows,
as in `rookery backtest`. Nothing of the account's own state is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.data.dataset import Dataset
from rookery.data.feeds.fetch import time_name
from rookery.deploy.paper.account_files import AccountFolder, Line
from rookery.deploy.paper.book import CLOSING
from rookery.deploy.paper.paper_world import MarketForm, PaperWorld
from rookery.deploy.paper.traded_agents import TradedAgent, TradedAgents
from rookery.training.backtest.recording import MarketView, play_windows
from rookery.training.backtest.records import WindowRecord
from rookery.training.players.agents import AgentPlayer

FIGURES = ("cash", "exposure", "turnover", "trades")
Load = Callable[[int], TradedAgent]  # an agent by its number
COSTS = {"fees": "fees", "spread_cost": "spread", "impact_cost": "impact", "funding_cost": "funding"}


@dataclass(frozen=True)
class Difference:
    """Where a log and the backtest part."""

    time: int
    symbols: tuple[str, ...]
    what: str
    logged: Any
    computed: Any

    def __str__(self) -> str:
        return (
            f"{time_name(self.time)}, {', '.join(self.symbols)}: {self.what} is {self.logged!r} in the log, and "
            f"{self.computed!r} in the backtest"
        )


@dataclass(frozen=True)
class Parity:
    """What `check_parity` found. `bars` and `fills` were compared; `first_difference` is None if all are equal."""

    bars: int
    fills: int
    orders: int
    first_difference: Difference | None

    def as_json(self) -> dict[str, Any]:
        return {
            "equal": self.first_difference is None, "bars": self.bars, "fills": self.fills, "orders": self.orders,
            "first_difference": None if self.first_difference is None else str(self.first_difference),
        }  # fmt: skip


@dataclass
class _Window:
    """What one account did in one segment: its decisions, and the lines of the steps that followed them."""

    block: int
    symbols: tuple[str, ...]
    balance: float
    begun: int | None = None
    decisions: list[_Decision] = field(default_factory=list)
    steps: list[tuple[Line, Line]] = field(default_factory=list)  # a line, and the entry of this account in it


@dataclass
class _Decision:
    version: int
    action: Any
    is_agents: bool  # the agent's own choice, and not that of the account
    closing: bool


def check_parity(folder: AccountFolder, agents: TradedAgents) -> Parity:
    """Play a log again through the backtest, and compare every figure and fill."""
    lines = folder.lines()
    dataset = folder.bars(lines)
    bars = [line for line in lines if line["kind"] == "bar"]
    fills = sum(len(line["fills"]) for line in bars)
    orders = [order["id"] for line in bars for order in line["orders"]]
    load = cache(agents.load)
    found = _twice(bars) or [
        difference for begin, part in _segments(lines) for difference in _differences(begin, part, dataset, load)
    ]
    first = min(found, key=lambda difference: difference.time) if found else None
    return Parity(len(bars), fills, len(orders), first)


def _twice(bars: Sequence[Line]) -> list[Difference]:
    """Orders with the id of an earlier one."""
    seen: dict[str, int] = {}
    found = []
    for line in bars:
        for order in line["orders"]:
            if order["id"] in seen:
                found.append(Difference(line["time"], (order["symbol"],), "order", order["id"], "ordered once before"))
            seen[order["id"]] = line["time"]
    return found


def _segments(lines: Sequence[Line]) -> list[tuple[Line, list[Line]]]:
    """The beginning of each segment, and the lines of it. The first line of the next one is also the last of it: its
    fills belong to it."""
    found: list[tuple[Line, list[Line]]] = []
    for line in lines[1:]:
        if found:
            found[-1][1].append(line)
        if "begin" in line:
            found.append((line["begin"], [line]))
    return found


def _differences(begin: Line, lines: Sequence[Line], dataset: Dataset, load: Load) -> list[Difference]:
    form = MarketForm.from_json(begin["form"])
    world = PaperWorld(load(begin["version"]).config, form)
    made = world.build(dataset)
    windows = [
        _Window(block, symbols, balance)
        for block, (symbols, balance) in enumerate(zip(world.books, begin["balances"], strict=True))
    ]
    _fill_windows(windows, lines, made)
    played = [window for window in windows if window.steps]
    if not played:
        return []
    rows = np.array([_rows(window, made) for window in played])
    made = made.with_tables(windows=rows)
    made.windows = rows
    view = MarketView(made)
    players: list[_Replay] = []

    def player_for(engine: Any) -> _Replay:
        players.append(_Replay(engine, made, played, load))
        return players[0]

    balances = np.array([window.balance for window in played])
    records = play_windows(view, made, player_for, np.arange(len(played)), initial_balance=balances)
    found = players[0].differences
    for window, record in zip(played, records, strict=True):
        found += _compared(window, record, made)
    return found


def _fill_windows(windows: Sequence[_Window], lines: Sequence[Line], world: Any) -> None:
    for number, line in enumerate(lines):
        for window in windows:
            if line["kind"] == "bar":
                _take_bar(window, line, number == 0, world)
            elif window.decisions:
                last = window.decisions[-1]
                last.closing = last.closing and line["kind"] != "resume"
                if line["kind"] == "kill" and line["actions"][window.block] is not None:
                    last.action, last.is_agents = line["actions"][window.block], False


def _take_bar(window: _Window, line: Line, is_first: bool, world: Any) -> None:
    ends = "begin" in line and not is_first
    entry = None if is_first or window.block >= len(line["books"]) else line["books"][window.block]
    if entry is not None:
        window.steps.append((line, entry))
    if ends or line["actions"][window.block] is None:
        return
    if window.begun is None:
        window.begun = line["time"]
    own = not line["missed"] and line["closing"] is None
    window.decisions.append(_Decision(line["version"], line["actions"][window.block], own, line["closing"] is not None))


def _rows(window: _Window, world: Any) -> tuple[int, int]:
    """First and last row of a window in the tables of the complete series."""
    first, last = world.market.blocks[window.block]
    times = world.market.times[first : last + 1]
    assert window.begun is not None  # it has steps
    begin = first + int(np.searchsorted(times, window.begun))
    return begin, begin + len(window.steps)


class _Replay:
    """Lets the agents of a log decide again. Where the account decided, as in closing, it does as the log says."""

    def __init__(self, engine: Any, world: Any, windows: Sequence[_Window], load: Load) -> None:
        self._engine, self._windows, self._load = engine, windows, load
        self._normal = {name: world.values[name] for name in CLOSING if name in world.values}
        self._players: dict[tuple[int, int], AgentPlayer] = {}
        self._at = [0] * len(windows)
        self._versions: list[int | None] = [None] * len(windows)
        self._closing = [False] * len(windows)
        self.action_space: spaces.Space = world.action_space
        self.differences: list[Difference] = []

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        """All windows begin at their first bar."""

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> Any:
        chosen = [self._decide(int(env), observations[k : k + 1]) for k, env in enumerate(envs)]
        return np.array(chosen, self.action_space.dtype)

    def _decide(self, env: int, observation: np.ndarray) -> Any:
        window = self._windows[env]
        decision, self._at[env] = window.decisions[self._at[env]], self._at[env] + 1
        own = self._player(env, decision.version).act(observation, np.array([0]))[0]
        self._set_closing(env, decision.closing)
        if decision.is_agents and np.asarray(own).tolist() != decision.action:
            time = window.steps[self._at[env] - 1][0]["time"]
            what = "the action before this bar"
            self.differences.append(Difference(time, window.symbols, what, decision.action, np.asarray(own).tolist()))
        return own if decision.is_agents else np.array(decision.action, self.action_space.dtype)

    def _player(self, env: int, version: int) -> AgentPlayer:
        """A new agent begins without memory."""
        if self._versions[env] != version:
            player = AgentPlayer(self._load(version).agent, "agent", deterministic=True, copy=False)
            player.begin(np.array([0]), [0])
            self._players[env, version], self._versions[env] = player, version
        return self._players[env, version]

    def _set_closing(self, env: int, closing: bool) -> None:
        if closing != self._closing[env]:
            values = {name: CLOSING[name] for name in self._normal} if closing else self._normal
            self._engine.set_parameters(envs=[env], **values)
            self._closing[env] = closing


def _compared(window: _Window, record: WindowRecord, world: Any) -> list[Difference]:
    """The first difference of each kind between the steps of a log and those of the backtest."""
    found = []
    computed = {"equity": record.equity[1:], **{name: getattr(record, name) for name in FIGURES}}
    computed |= {name: record.costs[ours] for name, ours in COSTS.items()} | {"reward": record.rewards}
    first = _rows(window, world)[0]
    before = np.zeros(len(window.symbols))
    for k, (line, entry) in enumerate(window.steps[: len(record)]):
        pairs: list[tuple[str, Any, Any]] = [(name, entry[name], float(values[k])) for name, values in computed.items()]
        positions = record.positions[k]
        pairs.append(("positions", entry["positions"], positions.tolist()))
        pairs.append(("fills", _logged_fills(line, window), _fills(positions - before, first + 1 + k, world)))
        before = positions
        for name, logged, own in pairs:
            if logged != own:
                found.append(Difference(line["time"], window.symbols, name, logged, own))
        if found:
            return found
    if len(record) != len(window.steps):
        line = window.steps[len(record)][0]
        found.append(Difference(line["time"], window.symbols, "the bar", "traded", "after the end of the account"))
    return found


def _logged_fills(line: Line, window: _Window) -> list[tuple[float, float]]:
    fills = [fill for fill in line["fills"] if fill["symbol"] in window.symbols]
    return [(fill["units"], fill["price"]) for fill in fills]


def _fills(traded: np.ndarray, row: int, world: Any) -> list[tuple[float, float]]:
    prices = np.asarray(world.market.bars[row, ..., 0]).reshape(-1)
    return [(float(units), float(price)) for units, price in zip(traded, prices, strict=True) if units != 0]
