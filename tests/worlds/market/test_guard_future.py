"""Nothing that a market world says depends on a bar that is not complete yet; and a world that peeks is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.data.dataset import Dataset
from rookery.data.splits import combinatorial_purged
from rookery.worlds.market import forex_rules
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import Forex, forex
from worlds.market.future import CASES, COINS, COMMON, COSTS, PAIRS, FutureGuard, bars, scramble_after_time


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of small tables should not be written to the user's cache."""
    monkeypatch.setattr("rookery.data.shared_tables.cache_folder", lambda name: None)


@pytest.mark.few(1)
@pytest.mark.parametrize("case", CASES)
def test_no_later_bar_changes_what_a_world_says(case: str) -> None:
    """Observations, fills, costs and rewards up to a step are the same, bit for bit, whatever the later bars are."""
    world, symbols, options = CASES[case]
    guard = FutureGuard(lambda data: world(data=data, **{**COMMON, **options}), bars(symbols))

    @settings(max_examples=4, deadline=None)
    @given(seed=st.integers(0, 10_000), known_steps=st.integers(0, 29))
    def check(seed: int, known_steps: int) -> None:
        assert guard.leaks(seed, known_steps) == []

    check()


def peeking(state: Any, tables: Any) -> int:
    """Observe the row after the newest known one."""
    return forex_rules.window_start(state, tables) + tables.width[0]


def reward_of_the_next_bar(state: Any, action: Any, params: Any, tables: Any, info: Any) -> Any:
    reward, terminated, truncated = forex_rules.step(state, action - 1.0, params, tables, info)
    later = min(state.row + 1, len(tables.bars) - 1)
    return reward + state.position * (tables.bars[later, 1] / tables.bars[state.row, 1] - 1.0), terminated, truncated


def sized_by_the_next_close(state: Any, action: Any, params: Any, tables: Any, info: Any) -> Any:
    """Trade only if the bar after the one in which the order fills will rise."""
    later = min(state.row + 2, len(tables.bars) - 1)
    wanted = action - 1.0 if tables.bars[later, 1] > tables.bars[state.row, 1] else 0.0
    return forex_rules.step(state, wanted, params, tables, info)


def broken(**parts: Any) -> Any:
    """A forex world with some functions replaced."""
    made = type("Broken", (Forex,), {name: staticmethod(part) for name, part in parts.items()})
    return lambda data: made(data=data, **COMMON, costs="none", cooldown=0, daily_drawdown=1.0)


def with_next_return(data: Dataset) -> Dataset:
    parts = [each.with_columns({"noise": np.append(np.diff(np.log(each["close"])), 0.0)}) for each in data.bars]
    return replace(data, bars=tuple(parts))


def normalised_over_all_rows(name: str, column: np.ndarray, close: np.ndarray, scaling: str) -> np.ndarray:
    return ((column - np.nanmean(column)) / (np.nanstd(column) + 1e-9)).astype(np.float32)


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (broken(window_start=peeking), "observation"),
        (broken(step=reward_of_the_next_bar), "reward"),
        (broken(step=sized_by_the_next_close), "position"),
        (lambda data: broken()(with_next_return(data)), "observation"),
    ],
    ids=["observation", "reward", "order", "feature"],
)
def test_the_guard_notices_a_world_that_knows_the_next_bar(make: Any, seen: str) -> None:
    guard = FutureGuard(make, bars(PAIRS))
    assert any(seen in guard.leaks(seed, 20) for seed in range(10))


def test_the_guard_notices_scaling_by_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.worlds.market.portfolio.scaled", normalised_over_all_rows)
    guard = FutureGuard(lambda data: crypto(data=data, **COMMON), bars(COINS))
    assert guard.leaks(1, 20) == ["observation"]


def test_the_guard_notices_a_rate_of_exchange_from_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the bars of another pair are found by when they begin."""
    known = "rookery.worlds.market.market_tables._known"

    def next_close(other: Any, times: np.ndarray) -> np.ndarray:
        rows = np.searchsorted(other.times, times, side="right")
        return other["close"][np.minimum(rows, len(other) - 1)]

    data = bars(PAIRS)
    make = lambda data: forex(data=data, **COMMON, costs=COSTS, cooldown=0, symbol=2)  # noqa: E731
    assert FutureGuard(make, data).leaks(1, 20) == []
    monkeypatch.setattr(known, next_close)
    assert "equity" in FutureGuard(make, data).leaks(1, 20)


SIMPLE = {"columns": "close,noise", "lookback": 3, "time_limit": 0, "costs": "ecn-forex", "cooldown": 0, "window": 0}


@pytest.mark.parametrize("split", ["train", "validation"])
def test_bars_after_a_split_change_nothing_in_it(split: str) -> None:
    """To its very end, and with what the world is told about where episodes start."""
    data = bars(("EURUSD", "GBPUSD"))
    guard = FutureGuard(lambda data: forex(data=data, split=split, **SIMPLE), data)
    said = guard.played(data, seed=1)
    for seed in range(3):
        assert guard.played(scramble_after_time(data, said[-1][0], seed), seed=1) == said


@pytest.mark.slow
def test_bars_of_a_purged_test_change_nothing_in_training() -> None:
    """Rows that test lie before and between rows that train. The embargo is as long as what an observation needs."""
    data = bars(("EURUSD",))
    other = scramble_after_time(data, 0, 5)
    rows = len(data.bars[0])
    guard = FutureGuard(lambda data: forex(data=data, **SIMPLE), data)
    for number, split in enumerate(combinatorial_purged(rows, 4, 2, purge=1, embargo=4)):
        tested = np.zeros(rows, bool)
        tested[split.rows("test")] = True
        columns = {name: np.where(tested, other.bars[0][name], old) for name, old in data.bars[0].columns.items()}
        changed = replace(data, bars=(data.bars[0].with_columns(columns),))
        guard.make = lambda data, ranges=split.train: forex(data=data, split=ranges, **SIMPLE)
        assert guard.played(data, number) == guard.played(changed, number)
        guard.make = lambda data, ranges=split.test: forex(data=data, split=ranges, **SIMPLE)
        assert guard.played(data, number) != guard.played(changed, number)
