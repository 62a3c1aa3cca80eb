"""From recorded windows to a report as plain data: what `report.json` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.data.calendars import timeframe_name
from rookery.performance.bootstrap import LEAST, ConfidenceInterval, bootstrap_intervals, sharpe_difference
from rookery.performance.ratios import drawdowns, hit_rate, sharpe, sortino, total_return
from rookery.training.backtest.figures import (
    account_figures,
    agent_figures,
    date_text,
    labels,
    notes,
    plain,
    useful_units,
    verdict,
)
from rookery.training.backtest.joined_account import STRATEGIES, JoinedAccount, join, join_folds, window_scales
from rookery.training.backtest.over_time import rolling_sharpe, significance, worst_drawdowns
from rookery.training.backtest.records import COSTS, MarketFacts, WindowRecord
from rookery.training.backtest.trades import Trade, asset_rows, trade_figures, trades_of

FORMAT = 1


def summarise(
    records: Sequence[WindowRecord], market: MarketFacts, about: Mapping[str, Any], seed: int = 0
) -> tuple[dict[str, Any], JoinedAccount, list[Trade]]:
    """The report, the account that it is about, and its trades. `about` says which agent this is; `seed` is of the
    bootstrap."""
    account = join(records)
    a_year = market.periods_per_year
    figures = {name: account_figures(account, name, a_year) for name in STRATEGIES}
    figures["agent"] |= agent_figures(account)
    sure, scales = certainty(account, a_year, seed), window_scales(records)
    trades = trades_of(records, scales)
    report: dict[str, Any] = {
        "format": FORMAT,
        "verdict": "",
        **about,
        "notes": [*about.get("notes", ()), *notes(account, market, records)],
        "data": _data(records, account, market),
        "costs": {"name": market.costs_name, "rates": list(market.costs_rates)},
        "annualised_with": {"periods_per_year": a_year, "how": market.annualised_with},
        "initial_equity": float(account.equity["agent"][0]),
        **figures,
        "certainty": sure,
        "by_period": {unit: period_rows(account, unit) for unit in useful_units(account.times[1:])},
        "by_asset": asset_rows(records, scales),
        "trades": trade_figures(trades),
        "worst_drawdowns": worst_drawdowns(account),
        "rolling_sharpe": rolling_sharpe(account, a_year),
        "significance": significance(account, a_year, about.get("luck", {}).get("attempts", 1)),
        "by_fold": _folds(records, a_year),
    }
    report = plain(report)
    report["verdict"] = verdict(report)
    return report, account, trades


def period_rows(account: JoinedAccount, unit: str) -> list[dict[str, Any]]:
    """Return of each strategy, and the agent's trades and costs, by hour, day, week, month or year."""
    names = labels(account.times[1:], unit)
    starts = np.concatenate([[0], np.flatnonzero(names[1:] != names[:-1]) + 1])
    ends = np.concatenate([starts[1:], [len(names)]])
    return [
        _period_row(account, str(names[start]), int(start), int(end)) for start, end in zip(starts, ends, strict=True)
    ]


def _period_row(account: JoinedAccount, name: str, start: int, end: int) -> dict[str, Any]:
    row: dict[str, Any] = {"period": name}
    for strategy in STRATEGIES:
        equity = account.equity[strategy]
        row[strategy] = float(equity[end] / equity[start] - 1) if equity[start] > 0 else None
    inside = account.equity["agent"][start : end + 1]
    peaks = np.maximum.accumulate(inside)
    row["max_drawdown"] = float(np.max(1 - inside / np.where(peaks > 0, peaks, 1.0)))
    row["turnover"] = float(account.turnover[start:end].sum())
    row["trades"] = int(account.trades[start:end].sum())
    row["exposure"] = float(account.exposure[start:end].mean())
    row["costs"] = {kind: float(account.costs[kind][start:end].sum()) for kind in COSTS}
    return row


def _data(records: Sequence[WindowRecord], account: JoinedAccount, market: MarketFacts) -> dict[str, Any]:
    return {
        "source": market.source,
        "hash": market.fingerprint,
        "synthetic": market.synthetic,
        "symbols": list(dict.fromkeys(symbol for record in records for symbol in record.symbols)),
        "timeframe": timeframe_name(market.timeframe),
        "calendar": market.calendar,
        "start": date_text(account.times[0]),
        "end": date_text(account.times[-1]),
        "bars": len(account),
        "windows": len(records),
        "accounts": account.accounts,
    }


def _folds(records: Sequence[WindowRecord], a_year: float) -> list[dict[str, Any]]:
    """The folds of a walk-forward test, in order; none for another test."""
    rows = []
    for fold, account in join_folds(records).items():
        figures = {name: account_figures(account, name, a_year) for name in STRATEGIES}
        kept = ("total_return", "sharpe", "sortino", "volatility", "max_drawdown")
        traded = agent_figures(account)
        rows.append(
            {
                "fold": fold,
                "start": date_text(account.times[0]),
                "end": date_text(account.times[-1]),
                "from": int(account.times[0]),
                "bars": len(account),
                **{name: {key: figures[name][key] for key in kept} for name in STRATEGIES},
                **{key: traded[key] for key in ("trades", "turnover", "exposure", "costs")},
            }
        )
    return rows


SAMPLES, FEWEST_SAMPLES = 1000, 200  # of intervals
MOST_VALUES = 50_000_000  # in all samples: a long history takes fewer of them, and needs fewer
TEST_SAMPLES = 4999
LEVEL = 0.95
UNBOUNDED = 1e9  # a ratio from here on has no number: a sample without losses


def certainty(account: JoinedAccount, periods_per_year: float, seed: int = 0) -> dict[str, Any]:
    """Intervals of the agent's figures by a stationary block bootstrap, and the one-sided p-value of a Sharpe ratio
    above hold's: how likely such a difference is if the agent is not better."""
    agent, hold = account.returns("agent"), account.returns("hold")
    if len(agent) < LEAST or agent.std() == 0:
        why = f"there are {len(agent)} bars" if len(agent) < LEAST else "the account never changed"
        return {"how": f"none: {why}", "level": LEVEL, "intervals": {}, "p_value": None, "test": "none"}
    statistics = {
        "total_return": total_return,
        "sharpe": lambda returns: sharpe(returns, periods_per_year),
        "sortino": lambda returns: np.clip(sortino(returns, periods_per_year), -UNBOUNDED, UNBOUNDED),
        "max_drawdown": _deepest,
        "hit_rate": hit_rate,
    }
    samples = max(FEWEST_SAMPLES, min(SAMPLES, MOST_VALUES // len(agent)))
    found = bootstrap_intervals(agent, statistics, LEVEL, samples, seed=seed)
    test = sharpe_difference(agent, hold, TEST_SAMPLES, seed=seed, level=LEVEL)
    drawn = next(iter(found.values()))
    return {
        "how": f"{100 * LEVEL:.0f} %, stationary bootstrap: {samples:,} samples in blocks of {drawn.block:.3g} bars on "
        "average",
        "level": LEVEL,
        "intervals": {name: _ends(interval) for name, interval in found.items()},
        "p_value": test.p_value,
        "test": f"one-sided, studentised difference of Sharpe ratios: {TEST_SAMPLES:,} samples in blocks of "
        f"{test.block} bars",
    }


def _ends(interval: ConfidenceInterval) -> list[float | None]:
    return [end if abs(end) < UNBOUNDED else None for end in (interval.low, interval.high)]


def _deepest(returns: np.ndarray) -> np.ndarray:
    """The largest drawdown of each series."""
    growth = np.cumprod(1 + returns, axis=-1)
    begun = np.concatenate([np.ones((*growth.shape[:-1], 1)), growth], axis=-1)
    return drawdowns(begun).max(axis=-1)
