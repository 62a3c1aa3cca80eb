"""Trades one by one, drawdowns, the moving Sharpe ratio and the years that a result needs."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from rookery.performance import moments, needed_periods, probabilistic_sharpe, sharpe
from rookery.training.backtest.backtest import make_report
from rookery.training.backtest.over_time import significance_text
from training.backtest.recorded import DAY, HOUR, START, market, random_window, window

ABOUT = {"run": "a-run", "world": "crypto", "split": "test", "checkpoint": "best"}


def report_of(*records, **about):
    return make_report(records, market(), {**ABOUT, **about})


def test_a_trade_from_entry_to_exit():
    """Bought at 100, one more at 110, sold at 120; then short from 120 to the end."""
    closes = [100, 100, 110, 120, 120, 90]
    report = report_of(window(closes, [1, 2, 2, 0, -1], fee=0.01))
    first, second = report.trades
    assert (first.side, first.bars, first.closed) == ("long", 3, True)
    assert (first.entered, first.left) == (START, START + 3 * HOUR)
    assert (first.entry_price, first.exit_price) == (100, 120)
    assert first.profit_before_costs == pytest.approx(20 + 20)  # one unit from 100, one from 100: opens are last closes
    assert first.costs == pytest.approx(0.01 * (100 + 100 + 240))
    assert first.part == pytest.approx(first.profit / 1000)
    assert (second.side, second.closed, second.bars) == ("short", False, 1)
    assert second.profit_before_costs == pytest.approx(30) and second.exit_price == 90
    assert report["trades"]["count"] == 2 and report["trades"]["open"] == 1 and report["trades"]["won"] == 1.0


def test_a_position_that_is_turned_round_is_two_trades():
    report = report_of(window([100, 110, 120, 100], [1, -2, -2], fee=0.01))
    long, short = report.trades
    assert (long.side, long.left, short.side, short.entered) == ("long", START + HOUR, "short", START + HOUR)
    assert long.profit_before_costs == pytest.approx(10)
    assert short.profit_before_costs == pytest.approx(-20 + 40)
    assert long.costs == pytest.approx(1 + 1.1) and short.costs == pytest.approx(
        2.2
    )  # at 110: one sold, two sold short


CASES = {
    "one symbol": [random_window(400)],
    "gaps between opens and closes": [
        random_window(300, opens=100 * np.exp(np.cumsum(0.01 * np.random.default_rng(7).standard_normal(301))))
    ],
    "portfolio": [random_window(400, 5)],
    "windows": [random_window(100, 2), random_window(100, 2, seed=2, start=START + 30 * DAY)],
    "accounts": [random_window(200, symbols=("EURUSD",)), random_window(150, seed=2, symbols=("USDJPY",))],
}


@pytest.mark.parametrize("case", CASES)
def test_trades_add_up_to_the_account(case):
    """No money is lost between trades: their profits and costs are those of the account."""
    report = report_of(*CASES[case])
    gained = report["agent"]["final_equity"] - report["initial_equity"]
    assert sum(trade.profit for trade in report.trades) == pytest.approx(gained, rel=1e-9, abs=1e-9)
    assert sum(trade.costs for trade in report.trades) == pytest.approx(report["agent"]["costs"]["total"], rel=1e-9)
    assert sum(row["profit"] for row in report["by_asset"]) == pytest.approx(gained, rel=1e-9, abs=1e-9)
    assert all(trade.bars > 0 and trade.left > trade.entered and trade.costs >= 0 for trade in report.trades)


def test_a_file_has_a_row_per_trade(tmp_path):
    report = report_of(random_window(300, 2, symbols=('A,"B"', "C")))
    report.write(tmp_path)
    with (tmp_path / "trades.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(report.trades) and {row["symbol"] for row in rows} == {'A,"B"', "C"}
    assert [float(row["profit"]) for row in rows] == pytest.approx([trade.profit for trade in report.trades])


def test_the_worst_drawdowns_in_order():
    values = [100, 90, 100, 110, 77, 88, 115, 110, 105]
    falls = report_of(window(values, [10] * 8, step=DAY))["worst_drawdowns"]
    assert [fall["depth"] for fall in falls] == pytest.approx([0.3, 0.1, 1 - 105 / 115])
    assert [fall["days"] for fall in falls] == [3.0, 2.0, 2.0]
    assert falls[0]["start"] == "2024-01-04 00:00" and falls[0]["bottom"] == "2024-01-05 00:00"
    assert falls[2]["end"] is None and falls[0]["end"] == "2024-01-07 00:00"


def test_the_moving_sharpe_ratio_is_that_of_each_stretch():
    report = report_of(random_window(24 * 100, 2))
    moving, returns = report["rolling_sharpe"], report.account.returns()
    assert (moving["bars"], moving["days"]) == (7 * 24, 7)
    for time, ratio in list(zip(moving["times"], moving["agent"], strict=True))[::50]:
        row = int(np.searchsorted(report.account.times, time))
        assert ratio == pytest.approx(sharpe(returns[row - 168 : row], 8766.0), rel=1e-6)
    assert moving["least"] <= moving["median"] <= moving["most"] and 0 <= moving["above_hold"] <= 1
    assert report_of(random_window(50))["rolling_sharpe"] is None


@pytest.mark.parametrize("attempts", [1, 50])
def test_so_many_bars_give_the_confidence(attempts):
    """With exactly as many bars as are said to be needed, the deflated Sharpe ratio is the confidence."""
    from rookery.performance import chance_of_worth

    found = moments(np.random.default_rng(3).standard_normal(5000) + 0.05)
    figures = {"sharpe_per_bar": found.pop("sharpe"), **found}
    needed = needed_periods(figures, attempts, 0.95)
    assert chance_of_worth({**figures, "observations": needed}, attempts) == pytest.approx(0.95, abs=1e-9)
    if attempts == 1:
        alone = probabilistic_sharpe(figures["sharpe_per_bar"], needed, figures["skewness"], figures["kurtosis"])
        assert alone == pytest.approx(0.95)
    assert needed_periods({**figures, "sharpe_per_bar": 0.0}, attempts) == math.inf


def test_the_years_are_a_sentence():
    good, text = {"excess_sharpe": 1.0, "years": 0.5, "attempts": 20, "years_needed": 9.12}, ""
    text = significance_text(good)
    assert "needs 9.12 years" in text and "20 attempts" in text and "are 0.5" in text
    assert "nothing was earned" in significance_text({**good, "excess_sharpe": -1.0, "years_needed": None})
    report = report_of(random_window(24 * 30))
    assert (report["significance"]["years_needed"] is None) == (report["significance"]["excess_sharpe"] <= 0)


def test_folds_are_drawn_and_the_text_fits_a_terminal(capsys, monkeypatch):
    from rookery.training.backtest.report_pages import page

    monkeypatch.setenv("COLUMNS", "100")
    folds = [random_window(24 * 40, 2, seed=k, fold=k + 1, start=START + k * 40 * DAY) for k in range(3)]
    report = report_of(*folds)
    text = page(report.summary, report.account, report.trades)
    assert [text.count(f">fold {k}</text>") for k in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert text.count('class="fall"') == len(report["worst_drawdowns"]) > 0
    report.print()
    out = capsys.readouterr().out
    tables = out[out.index("total return") :]
    assert max(map(len, tables.splitlines())) <= 100
    for words in ("by month, in %", "worst drawdowns", "significance", "Sharpe, 30 d", "profit factor", "by fold"):
        assert words in out
