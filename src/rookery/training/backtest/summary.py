"""From recorded windows to a report as plain data: what `report.json` holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.data.timeframes import timeframe_name
from rookery.training.backtest.by_asset import asset_rows
from rookery.training.backtest.calendar_periods import date_text, labels, useful_units
from rookery.training.backtest.certainty import certainty
from rookery.training.backtest.figures import account_figures, agent_figures, plain
from rookery.training.backtest.joined_account import STRATEGIES, JoinedAccount, join, join_folds, window_scales
from rookery.training.backtest.records import COSTS, MarketFacts, WindowRecord
from rookery.training.backtest.verdict import notes, verdict

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
