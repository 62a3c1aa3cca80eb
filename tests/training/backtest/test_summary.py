"""Reports as data: figures against values worked out by hand, and accounts with nothing in them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from rookery.training.backtest.backtest import make_report
from rookery.training.backtest.figures import bars_per_year, labels, useful_units
from training.backtest.recorded import DAY, HOUR, START, market, random_window, window

ABOUT = {"run": "a-run", "world": "crypto", "split": "test", "checkpoint": "best"}


def summary(*records, **changes):
    return make_report(records, market(**changes), ABOUT).summary


def test_figures_of_a_small_account():
    """Equity 1000, 1100, 990, 1089."""
    report = summary(window([100, 110, 99, 108.9], [10, 10, 10]))
    agent = report["agent"]
    returns = np.array([0.1, -0.1, 0.1])
    per_bar = returns.mean() / returns.std(ddof=1)
    assert agent["total_return"] == pytest.approx(0.089)
    assert agent["sharpe_per_bar"] == pytest.approx(per_bar)
    assert agent["sharpe"] == pytest.approx(per_bar * math.sqrt(8766))
    assert agent["sortino"] == pytest.approx(returns.mean() / math.sqrt(0.01 / 3) * math.sqrt(8766))
    assert agent["max_drawdown"] == pytest.approx(0.1)
    assert agent["longest_drawdown_bars"] == 2 and agent["longest_drawdown_days"] == pytest.approx(2 / 24)
    assert agent["hit_rate"] == pytest.approx(2 / 3)
    assert (agent["trades"], agent["turnover"], agent["exposure"]) == (1, 1.0, 1.0)
    assert agent["annual_return"] is None  # of three hours it would mean nothing
    assert report["hold"]["total_return"] == pytest.approx(0.089)


def test_a_year_is_annualised():
    closes = 100 * 1.1 ** (np.arange(366) / 365)
    closes[100] *= 1.01
    report = summary(window(closes, np.full(365, 10), step=DAY), timeframe=DAY, periods_per_year=365.0)
    assert report["agent"]["annual_return"] == pytest.approx(0.1, abs=1e-6)
    assert report["annualised_with"]["periods_per_year"] == 365


def test_costs_by_kind():
    record = window([100, 100, 100], [5, 0], fee=0.01)
    record.costs["funding"][:] = 2.0
    report = summary(record)
    assert report["agent"]["costs"] == {"fees": 10.0, "spread": 0, "impact": 0, "funding": 4.0, "total": 14.0}
    assert report["agent"]["costs_of_initial_equity"] == pytest.approx(0.014)
    assert report["costs"] == {"name": "own", "rates": ["fee 0.1 % of each trade"]}


def test_periods():
    """A bar that is complete at midnight belongs to the day before."""
    report = summary(window(np.array([100, 110, 121, 60.5]), [10, 10, 10], step=DAY // 2))
    days = report["by_period"]["day"]
    assert [row["period"] for row in days] == ["2024-01-01", "2024-01-02"]
    assert days[0]["agent"] == pytest.approx(0.21) and days[1]["agent"] == pytest.approx(-0.5)
    assert days[1]["max_drawdown"] == pytest.approx(0.5)
    assert [row["trades"] for row in days] == [1, 0]


def test_periods_multiply_to_the_whole():
    report = summary(random_window(24 * 100, 3))
    for unit, rows in report["by_period"].items():
        for name in ("agent", "hold", "equal_weight"):
            whole = np.prod([1 + row[name] for row in rows])
            assert whole - 1 == pytest.approx(report[name]["total_return"]), unit
    assert list(report["by_period"]) == ["month", "week", "day"]


def test_units_fit_the_data():
    hours = START + HOUR * np.arange(1, 24 * 3)
    assert useful_units(hours) == ["day", "hour"]
    assert useful_units(hours[:1]) == ["day"]
    assert labels(np.array([START, START + 1]), "week").tolist() == ["2023-12-25", "2024-01-01"]


@pytest.mark.parametrize(
    ("calendar", "timeframe", "bars", "words"),
    [
        ("24/7", 300, 105_120, "365 days of 24 hours"),
        ("forex", HOUR, 6240, "52 weeks of 5 days of 24 hours"),
        ("XNYS", DAY, 252, "252 sessions"),
        ("XTKS", HOUR, 365, "counted in the data, calendar XTKS"),
    ],
)
def test_bars_of_a_year(calendar, timeframe, bars, words):
    found, how = bars_per_year(START + DAY * np.arange(10), timeframe, calendar)
    assert found == pytest.approx(bars, rel=1e-3) and words in how


def test_a_clear_winner_beats_hold():
    """It holds the rising one of two symbols; hold has both."""
    rng = np.random.default_rng(3)
    moves = 0.01 * rng.standard_normal((2001, 2)) + [0.002, -0.002]
    closes = 100 * np.exp(np.cumsum(moves, axis=0))
    report = summary(window(closes, np.tile([5.0, 0.0], (2000, 1)), fee=0.001))
    assert report["verdict"].startswith("Beats hold after costs: yes (Sharpe ratio")
    assert report["certainty"]["p_value"] < 0.01
    low, high = report["certainty"]["intervals"]["sharpe"]
    assert low < report["agent"]["sharpe"] < high


def test_chance_is_not_significant():
    """Agents that trade at random, without costs: few of many are called better."""
    verdicts = []
    for seed in range(10):
        record = random_window(200, seed=seed)
        verdicts.append(summary(record)["verdict"])
    assert sum(": yes" in text for text in verdicts) <= 2
    assert any(": not significant" in text or ": no (" in text for text in verdicts)


def test_the_same_records_give_the_same_report():
    assert summary(random_window(300)) == summary(random_window(300))


def test_no_trades():
    report = summary(window(np.linspace(100, 120, 50)))
    assert report["verdict"] == "Beats hold after costs: no, the agent made no trade (return +0.0 % against +20.0 %)."
    assert report["agent"]["sharpe"] is None and report["agent"]["hit_rate"] is None
    assert report["certainty"]["p_value"] is None


def test_one_bar():
    report = summary(window([100, 110], [10]))
    assert report["agent"]["total_return"] == pytest.approx(0.1)
    assert "too few bars to tell" in report["verdict"]
    assert "There is only 1 bar: the figures say little." in report["notes"]


def test_ruin():
    """An account that is lost stays lost, also in the windows after it."""
    lost = window([100, 50, 0.0, 0.0], [10, 10, 10], ruined=True)
    later = window([100, 110], [10], start=START + DAY)
    report = summary(lost, later)
    assert report["agent"]["final_equity"] == 0 and report["agent"]["total_return"] == -1
    assert report["agent"]["max_drawdown"] == 1
    assert "no, the account was lost" in report["verdict"]
    assert any("lost on 2024-01-01 02:00" in text for text in report["notes"])


def test_a_stopped_account_is_named():
    report = summary(window(np.linspace(100, 20, 30), np.full(29, 10), ruined=True))
    assert any("first on 2024-01-02 05:00" in text for text in report["notes"])


def test_what_limits_the_result_is_said():
    assert summary(random_window(200), synthetic=True)["notes"][0].startswith("The data are synthetic")
    assert any("costs nothing" in text for text in summary(random_window(200), costs_name="none")["notes"])


def test_it_is_valid_json():
    for record in (window([100, 110], [10]), window([100, 50, 0, 0], [10, 10, 10]), random_window(300, 3)):
        text = json.dumps(summary(record), allow_nan=False)
        assert json.loads(text)["format"] == 1


def test_folds_are_reported():
    report = summary(window([1, 2], [500], fold=1), window([2, 1], [500], fold=2, start=START + HOUR))
    assert [row["fold"] for row in report["by_fold"]] == [1, 2]
    assert [row["agent"]["total_return"] for row in report["by_fold"]] == pytest.approx([0.5, -0.5])
