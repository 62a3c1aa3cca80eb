"""Rules and signals in the account of the market worlds: the same fills, costs and report as an agent.

A rule is a function, or a class that is called, from `Bars` to one target per bar: the part of the account that is to
be held after it, from -1 (short) to 1 (long). It is decided when the bar is complete, and filled at the next open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.console import printable
from rookery.data.bar_files import PACKED_NAMES, TEXT_NAMES
from rookery.data.dataset import Bars, Dataset
from rookery.engine.env_factory import kernel_of
from rookery.errors import DataError, OptionError
from rookery.performance.bootstrap import LEAST, sharpe_difference
from rookery.performance.worth import chance_of_worth, excess_moments, least_sharpe
from rookery.training.backtest.figures import account_figures
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.recording import MarketView, play_windows
from rookery.training.backtest.records import WindowRecord
from rookery.training.backtest.signals import Signals, read_signals
from rookery.training.resolve.world_choice import World
from rookery.user_code import find_in_file
from rookery.worlds.market.forex_rules import CLOSE, OPEN

Rule = Callable[[Bars], Any]
# What the worlds would otherwise do to the orders of an agent: sell what is old, rest after a trade, stop for a day.
AS_ORDERED: dict[str, dict[str, Any]] = {
    "crypto": {"action_type": "weights", "hold_limit": 0, "columns": "close", "lookback": 1},
    "perpetuals": {"hold_limit": 0, "columns": "close", "lookback": 1},
    "forex-account": {"columns": "close", "lookback": 1},
    "forex": {"action_type": "continuous", "cooldown": 0, "daily_drawdown": 1.0, "columns": "close", "lookback": 1},
}
CUTS = (0.3, 0.6, 0.9)  # of the bars: where a rule is called again without the bars that follow
SIGNAL_FILES = (*TEXT_NAMES, *PACKED_NAMES, ".parquet", ".xlsx", ".xls")  # the last two get an error of their own
BUILT_IN = "rule:"


def momentum(bars: Bars, period: int = 100) -> np.ndarray:
    """Long while the price is above that of `period` bars ago."""
    close = bars["close"]
    return np.concatenate([np.zeros(min(period, len(close))), np.sign(close[period:] - close[:-period])])


def mean_reversion(bars: Bars, period: int = 20, width: float = 1.0) -> np.ndarray:
    """Long while the price is more than `width` standard deviations below its mean of `period` bars; short above."""
    close = bars["close"]
    if len(close) < period:
        return np.zeros(len(close))
    windows = np.lib.stride_tricks.sliding_window_view(close, period)
    score = (close[period - 1 :] - windows.mean(axis=1)) / np.maximum(windows.std(axis=1), 1e-12)
    return np.concatenate([np.zeros(period - 1), np.where(score < -width, 1.0, np.where(score > width, -1.0, 0.0))])


RULES: dict[str, Rule] = {"momentum": momentum, "mean_reversion": mean_reversion}


def given_rule(name: str) -> Rule:
    """A rule that comes with rookery."""
    if name.replace("-", "_") not in RULES:
        raise OptionError(f"there is no rule {name!r}: the rules are {', '.join(RULES)}")
    return RULES[name.replace("-", "_")]


def is_rule(what: Any) -> bool:
    """Whether it is a rule or a file of signals, not a run or an agent."""
    if not isinstance(what, (str, Path)):
        return callable(what) and not hasattr(what, "act")
    name = str(what)
    in_file = name.rpartition(":")[0].endswith(".py")
    return name.startswith(BUILT_IN) or in_file or _is_signals(name)


def _is_signals(name: str | Path) -> bool:
    return Path(name).suffix.lower() in SIGNAL_FILES and not Path(name).is_dir()


def rule_of(what: Any, data: Dataset, time_is: str | None, timezone: str | None) -> tuple[Rule, str]:
    """The rule that is meant, and its name."""
    if isinstance(what, (str, Path)) and _is_signals(what):
        return read_signals(Path(what), data, time_is, timezone), Path(what).name
    if isinstance(what, str) and what.startswith(BUILT_IN):
        name = what.removeprefix(BUILT_IN)
        return given_rule(name), name
    found = find_in_file(str(what), "rule") if isinstance(what, (str, Path)) else what
    name = str(what) if isinstance(what, (str, Path)) else getattr(found, "__name__", type(found).__name__)
    rule = found() if isinstance(found, type) else found
    if not callable(rule):
        raise OptionError(f"{name} is not a rule: give it __call__(self, bars), which returns one target per bar")
    return rule, name


def targets_of(rule: Rule, name: str, data: Dataset) -> dict[str, np.ndarray]:
    """The targets of each symbol, checked: one finite number per bar, from -1 to 1, known when it is used."""
    found = {}
    for bars in data.bars:
        targets = _asked(rule, name, bars)
        if targets.min(initial=0.0) < -1 or targets.max(initial=0.0) > 1:
            raise OptionError(f"{name}: a target is {_outside(targets):g}: give parts of the account, from -1 to 1")
        if not isinstance(rule, Signals):
            _refuse_future(rule, name, bars, targets)
        found[bars.symbol] = targets
    return found


def _asked(rule: Rule, name: str, bars: Bars) -> np.ndarray:
    given = rule(bars)
    try:
        targets = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"{name}: a rule returns one number per bar, from -1 to 1, got {given!r:.60}") from None
    if targets.shape != (len(bars),):
        raise OptionError(f"{name}: a rule returns one target per bar, ({len(bars)},), got {targets.shape}")
    if not np.isfinite(targets).all():
        raise OptionError(f"{name}: the target of row {int((~np.isfinite(targets)).argmax())} is not a finite number")
    return targets


def _outside(targets: np.ndarray) -> float:
    return float(targets[np.abs(targets).argmax()])


def _refuse_future(rule: Rule, name: str, bars: Bars, targets: np.ndarray) -> None:
    """Refuse a rule whose targets change when the bars after them are cut off."""
    for cut in CUTS:
        rows = max(1, int(cut * len(bars)))
        again = _asked(rule, name, bars.rows(slice(0, rows)))
        wrong = _different(again, targets[:rows])
        if len(wrong):
            _refuse_chance(rule, name, bars, targets)
            raise OptionError(
                f"{name} knows the future: its target of row {wrong[0]} of {bars.symbol} is {targets[wrong[0]]:g}, and "
                f"{again[wrong[0]]:g} without the bars after row {rows - 1}"
            )


def _refuse_chance(rule: Rule, name: str, bars: Bars, targets: np.ndarray) -> None:
    """Refuse a rule that answers the same bars differently: it draws, or remembers an earlier call."""
    wrong = _different(_asked(rule, name, bars), targets)
    if len(wrong):
        raise OptionError(
            f"{name} gives another target for row {wrong[0]} of {bars.symbol} when it is called again with the same "
            "bars: seed its random numbers in each call, and keep nothing between calls"
        )


def _different(targets: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The rows in which they differ by more than rounding."""
    return np.flatnonzero(~np.isclose(targets, others, rtol=1e-9, atol=1e-12))


class RulePlayer:
    """Holds the targets of a rule in each window."""

    def __init__(self, view: MarketView, targets: dict[str, np.ndarray], data: Dataset, action_space: Any) -> None:
        self.action_space: spaces.Space = action_space
        self._actions = [self._of_window(view, number, targets, data) for number in range(len(view.windows))]
        self._step = np.zeros(len(view.windows), np.int64)
        is_short = (
            view.is_portfolio
            and not view.world.goes_short
            and any(each.min(initial=0.0) < 0 for each in targets.values())
        )
        self.notes = ["Targets below 0 are held as 0: crypto is spot. Perpetuals and forex are short too."] * is_short

    @staticmethod
    def _of_window(view: MarketView, number: int, targets: dict[str, np.ndarray], data: Dataset) -> np.ndarray:
        """The action after each bar, (bars, symbols)."""
        first, last = view.windows[number]
        times = np.asarray(view.market.times)[first : last + 1]
        symbols = view.symbols(number)
        parts = [targets[name][np.searchsorted(data[name].times, times)] for name in symbols]
        table = np.stack(parts, axis=1)
        return table if not view.is_portfolio else view.world.actions_for(table / len(symbols))

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        self._step[envs] = 0

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        actions = [self._actions[env][self._step[env]] for env in envs.tolist()]
        self._step[envs] += 1
        return np.array(actions, np.float32)


def bars_of(view: MarketView) -> Dataset:
    """The opens and closes of a world's bars, for rules that need no more."""
    times, table = np.asarray(view.market.times), view.bars
    found = []
    for number, symbol in enumerate(view.market.symbols):
        first, last = view.market.blocks[0 if view.is_portfolio else number]
        rows = slice(first, last + 1)
        prices = table[:, number] if view.is_portfolio else table[rows]
        found.append(Bars(symbol, times[rows], {"open": prices[:, OPEN].copy(), "close": prices[:, CLOSE].copy()}))
    return Dataset(tuple(found), view.market.timeframe, view.market.calendar)


def play_rule(
    rule: Rule, name: str, world: World, data: Dataset | None = None, seed: int = 0
) -> tuple[list[WindowRecord], MarketView, list[str]]:
    """The records of a rule in all windows of a world, and notes. `data` are the bars for the rule."""
    kernel = kernel_of(world.factory, build=True)
    assert kernel is not None
    view = MarketView(kernel.world)
    bars = bars_of(view) if data is None else data
    player = RulePlayer(view, targets_of(rule, name, bars), bars, view.world.action_space)
    numbers = np.arange(len(view.windows))
    return play_windows(view, world.factory, lambda engine: player, numbers, seed), view, player.notes


def rule_figures(mine: JoinedAccount, other: JoinedAccount, periods_per_year: float) -> dict[str, Any]:
    """What a rule reached on the bars of an agent, and how likely the agent is better by luck alone."""
    _, own, theirs = np.intersect1d(mine.times[1:], other.times[1:], return_indices=True)
    tested = sharpe_difference(mine.returns()[own], other.returns()[theirs]) if len(own) >= LEAST else None
    figures = account_figures(other, "agent", periods_per_year)
    kept = {name: figures[name] for name in ("total_return", "sharpe", "max_drawdown")}
    return {**kept, "p_value": None if tested is None else tested.p_value}


def rule_note(name: str, figures: dict[str, Any]) -> str:
    better = "" if figures["p_value"] is None else f"; the agent is better with a p-value of {figures['p_value']:.3f}"
    return (
        f"The rule {name} had a return of {100 * figures['total_return']:.1f} % and a Sharpe ratio of "
        f"{figures['sharpe']:.2f} a year on the same bars{better}."
    )


def luck(account: JoinedAccount, periods_per_year: float, attempts: int) -> dict[str, Any]:
    """How likely the account is better than holding, as the best of so many attempts on these bars."""
    if attempts < 1:
        raise OptionError(f"attempts = {attempts}: give how many rules or settings were tested, at least 1")
    excess = excess_moments(account.returns("agent"), account.returns("hold"))
    a_year = math.sqrt(periods_per_year)
    return {
        "attempts": attempts,
        "excess_sharpe": excess["sharpe_per_bar"] * a_year,
        "deflated_sharpe": chance_of_worth(excess, attempts),
        "least_sharpe": least_sharpe((max(len(account), 2), attempts)) * a_year,
    }


def luck_note(found: dict[str, Any]) -> str:
    tested = f"As the best of {found['attempts']:,} attempts" if found["attempts"] > 1 else "As a first attempt"
    return (
        f"Beyond its share of holding, the Sharpe ratio is {found['excess_sharpe']:.2f} a year. {tested} it is worth "
        f"something with a chance of {found['deflated_sharpe']:.3f}; these bars can show a Sharpe ratio of "
        f"{found['least_sharpe']:.2f} a year or more."
    )


def kind_of(view: MarketView) -> str:
    """Which of `AS_ORDERED` a world takes."""
    if not view.is_portfolio:
        return "forex"
    if view.converts:
        return "forex-account"
    return "perpetuals" if "leverage" in view.world.values else "crypto"


def world_of_rule(world: str | None, data: Dataset) -> str:
    """The world of a rule: as it is named, or by the calendar of the bars."""
    chosen = world or ("forex" if data.calendar == "forex" else "crypto")
    if chosen not in AS_ORDERED:
        known = "crypto (held or not), perpetuals, forex or forex-account (long and short)"
        raise DataError(f"world = {printable(chosen)}: rules trade in {known}")
    return chosen
