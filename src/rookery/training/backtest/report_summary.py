"""From recorded windows to a report as plain data: what `report.json` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from rookery.training.backtest.joined_account import STRATEGIES, JoinedAccount, hold, join, join_folds, window_scales
from rookery.training.backtest.records import COSTS, MarketFacts, WindowRecord

FORMAT = 1


def summarise(
    records: Sequence[WindowRecord], market: MarketFacts, about: Mapping[str, Any], seed: int = 0
) -> tuple[dict[str, Any], JoinedAccount]:
    """The report, and the account that it is about. `about` says which agent this is; `seed` is of the bootstrap."""
    account = join(records)
    a_year = market.periods_per_year
    figures = {name: account_figures(account, name, a_year) for name in STRATEGIES}
    figures["agent"] |= agent_figures(account)
    sure = certainty(account, a_year, seed)
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
        "by_asset": asset_rows(records, window_scales(records)),
        "by_fold": _folds(records, a_year),
    }
    report = plain(report)
    report["verdict"] = verdict(report)
    return report, account


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
                "bars": len(account),
                **{name: {key: figures[name][key] for key in kept} for name in STRATEGIES},
                **{key: traded[key] for key in ("trades", "turnover", "exposure", "costs")},
            }
        )
    return rows


def asset_rows(records: Sequence[WindowRecord], scales: Sequence[float]) -> list[dict[str, Any]]:
    """One row per symbol over all windows; amounts of each window times its scale. The costs of a portfolio are
    divided by traded value, as its account pays them as one sum."""
    symbols = list(dict.fromkeys(symbol for record in records for symbol in record.symbols))
    return [_row(symbol, records, scales) for symbol in symbols]


def _row(symbol: str, records: Sequence[WindowRecord], scales: Sequence[float]) -> dict[str, Any]:
    parts = [
        (_contribution(record, record.symbols.index(symbol)), scale)
        for record, scale in zip(records, scales, strict=True)
        if symbol in record.symbols
    ]
    profits = np.concatenate([part["profit"] for part, _ in parts])
    weights = np.concatenate([part["weight"] for part, _ in parts])
    held = profits[np.concatenate([part["held"] for part, _ in parts])]
    moved = held[held != 0]
    growth = np.prod([part["price_ratio"] for part, _ in parts])
    return {
        "symbol": symbol,
        "profit_before_costs": float(sum(scale * part["profit"].sum() for part, scale in parts)),
        "costs": float(sum(scale * part["costs"] for part, scale in parts)),
        "profit": float(sum(scale * (part["profit"].sum() - part["costs"]) for part, scale in parts)),
        "trades": int(sum(part["trades"] for part, _ in parts)),
        "turnover": float(sum(part["turnover"] for part, _ in parts)),
        "exposure": float(np.abs(weights).mean()) if len(weights) else 0.0,
        "time_in_market": float((weights != 0).mean()) if len(weights) else 0.0,
        "hit_rate": float((moved > 0).mean()) if len(moved) else None,
        "hold_return": float(growth - 1),
    }


def _contribution(record: WindowRecord, place: int) -> Mapping[str, Any]:
    alone = len(record.symbols) == 1
    return _only_symbol(record) if alone else _one_of_several(record, place)


def _only_symbol(record: WindowRecord) -> Mapping[str, Any]:
    """Of an account with one symbol everything is known exactly."""
    paid = np.sum([record.costs[kind] for kind in COSTS], axis=0)
    weight = np.sign(record.positions[:, 0]) * record.exposure
    held = (weight != 0) | (np.concatenate([[0.0], weight[:-1]]) != 0)
    return {
        "profit": np.diff(record.equity) + paid,
        "costs": paid.sum(),
        "trades": record.trades.sum(),
        "turnover": record.turnover.sum(),
        "weight": weight,
        "held": held,
        "price_ratio": _price_ratio(record, 0),
    }


def _one_of_several(record: WindowRecord, place: int) -> Mapping[str, Any]:
    """Orders fill at the open: the old position earns up to it, the new one from it on."""
    opens, closes = record.opens[:, place], record.closes[:, place]
    after = record.positions[:, place]
    before = np.concatenate([[0.0], after[:-1]])
    traded = np.abs(after - before) * opens[1:]
    share = traded / np.maximum(_traded(record), 1e-300)
    paid = np.sum([record.costs[kind] for kind in COSTS], axis=0)
    equity = np.where(record.equity > 0, record.equity, np.inf)
    return {
        "profit": before * (opens[1:] - closes[:-1]) + after * (closes[1:] - opens[1:]),
        "costs": (share * paid).sum(),
        "trades": (traded > 0).sum(),
        "turnover": (traded / equity[:-1]).sum(),
        "weight": after * closes[1:] / equity[1:],
        "held": (after != 0) | (before != 0),
        "price_ratio": _price_ratio(record, place),
    }


def _traded(record: WindowRecord) -> np.ndarray:
    """The value of all trades of each step."""
    before = np.concatenate([np.zeros((1, record.positions.shape[1])), record.positions[:-1]])
    return (np.abs(record.positions - before) * record.opens[1:]).sum(1)


def _price_ratio(record: WindowRecord, place: int) -> float:
    """What holding this symbol alone makes of 1, after costs."""
    if len(record) == 0:
        return 1.0
    alone = slice(place, place + 1)
    only = replace(
        record,
        symbols=record.symbols[alone],
        opens=record.opens[:, alone],
        closes=record.closes[:, alone],
        entry_cost=record.entry_cost[alone],
        carry=record.carry[:, alone],
    )
    return float(hold(only)[-1] / record.equity[0])


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
