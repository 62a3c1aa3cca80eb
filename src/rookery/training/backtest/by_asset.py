"""What each symbol contributed to an account: profit before and after costs, trades, time in the market."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rookery.training.backtest.benchmark_accounts import hold
from rookery.training.backtest.records import COSTS, WindowRecord


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
