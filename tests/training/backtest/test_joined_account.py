"""Accounts of windows as one, and the accounts that an agent is compared with, against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.errors import DataError
from rookery.training.backtest.joined_account import equal_weight, hold, join, window_scales
from rookery.training.backtest.report_summary import asset_rows
from training.backtest.recorded import DAY, HOUR, START, random_window, window


def test_hold_buys_at_the_next_open_and_pays_for_it():
    record = window([100, 110, 121], opens=[100, 105, 110], fee=0.05)
    units = 1000 / (105 * 1.05)
    assert hold(record) == pytest.approx([1000, units * 110, units * 121])


def test_hold_pays_for_holding():
    record = window([100, 100, 100], carry=np.array([[0.01], [0.02]]))
    assert hold(record) == pytest.approx([1000, 990, 970])


def test_hold_of_several_symbols_buys_equal_parts():
    record = window([[10, 100], [20, 100]], opens=[[10, 100], [10, 100]])
    assert hold(record) == pytest.approx([1000, 1500])


def test_equal_weight_of_one_symbol_is_hold():
    record = random_window(200)
    assert equal_weight(record) == pytest.approx(hold(record))


def test_equal_weight_trades_back_once_a_day_and_pays():
    """The first day ends with the bar that is complete at midnight; the trade is at the open after it."""
    closes = [[10, 10], [20, 10], [20, 10], [20, 20]]
    opens = [[10, 10], [10, 10], [20, 10], [20, 10]]
    record = window(closes, opens=opens, fee=0.0, start=START, step=DAY // 2, entry_cost=np.array([0.1, 0.1]))
    bought = 500 / 11  # units of each
    before = np.array([bought * 20, bought * 10])
    traded = np.abs(before.mean() - before).sum()
    target = (before.sum() - 0.1 * traded) / 2
    assert equal_weight(record) == pytest.approx([1000, 30 * bought, 30 * bought, target + 2 * target])


def test_windows_follow_each_other():
    """The second window begins with what the first ended with; its amounts are scaled by that."""
    first = window([100, 110], [10], cash=1000)  # 1000 -> 1100
    second = window([50, 55, 44], [20, 20], cash=1000, start=START + 10 * HOUR, fee=0.01)
    account = join([second, first])
    assert len(account) == 3 and account.accounts == 1
    assert account.times.tolist() == [START, START + HOUR, START + 11 * HOUR, START + 12 * HOUR]
    assert account.equity["agent"] == pytest.approx([1000, 1100, 1100 * (1.1 - 0.01), 1100 * (0.88 - 0.01)])
    assert account.costs["fees"] == pytest.approx([0, 1.1 * 10, 0])
    assert account.turnover == pytest.approx([1, 1, 0])
    assert window_scales([second, first]) == pytest.approx([1.1, 1.0])
    assert account.equity["agent"][-1] - 1000 == pytest.approx(
        sum(row["profit"] for row in asset_rows([second, first], [1.1, 1.0]))
    )


def test_accounts_of_other_symbols_are_added():
    """A symbol without a bar keeps its value; before its first and after its last bar nothing is held."""
    one = window([100, 110, 121], [10, 10], symbols=("EURUSD",))
    other = window([1, 2], [1000], symbols=("USDJPY",), start=START + HOUR)
    account = join([one, other])
    assert account.accounts == 2
    assert account.times.tolist() == [START, START + HOUR, START + 2 * HOUR]
    assert account.equity["agent"] == pytest.approx([2000, 2100, 3210])
    assert account.exposed == pytest.approx([1100, 3210])
    assert account.weights["USDJPY"] == pytest.approx([0, 2000 / 3210])
    shorter = join([window([1, 2], [1000], symbols=("A",)), window([1, 1, 1, 1], [0, 0, 0], symbols=("B",))])
    assert shorter.exposed == pytest.approx([2000, 0, 0])


def test_windows_that_overlap_are_refused():
    with pytest.raises(DataError, match="windows of A overlap"):
        join([window([1, 2, 3]), window([1, 2, 3], start=START + HOUR)])


def test_nothing_recorded_is_refused():
    with pytest.raises(DataError, match="nothing to report"):
        join([window([1.0])])


def test_profit_by_asset_explains_the_account():
    """Before costs by prices and positions, and costs by traded value: together they are the change of the equity."""
    record = random_window(300, 4)
    rows = asset_rows([record], [1.0])
    assert [row["symbol"] for row in rows] == list("ABCD")
    assert sum(row["profit"] for row in rows) == pytest.approx(record.equity[-1] - 1000)
    assert sum(row["costs"] for row in rows) == pytest.approx(record.costs["fees"].sum())
    assert sum(row["trades"] for row in rows) == record.trades.sum()


def test_figures_of_an_asset():
    record = window([[10, 5], [12, 5], [9, 5]], [[10, 0], [5, 0]], fee=0.01)
    first, second = asset_rows([record], [1.0])
    # The opens are the closes before: 10 units earn 2 each, then 5 are sold at 12 and 5 lose 3 each.
    assert first["profit_before_costs"] == pytest.approx(20 - 15)
    assert first["costs"] == pytest.approx(0.01 * (100 + 60))
    assert (first["trades"], first["time_in_market"], first["hit_rate"]) == (2, 1.0, 0.5)
    assert first["hold_return"] == pytest.approx(0.9 / 1.01 - 1)
    assert (second["trades"], second["profit"], second["hit_rate"]) == (0, 0.0, None)


def test_a_short_position_is_negative():
    record = window([100, 90], [-5])
    account = join([record])
    assert account.weights["A"][0] == pytest.approx(-450 / 1050)
    assert account.exposure[0] == pytest.approx(450 / 1050)
