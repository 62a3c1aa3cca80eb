"""What each symbol earned, and each trade: a position from its first fill until it is closed or turned round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from rookery.training.backtest.figures import DAY, date_text
from rookery.training.backtest.joined_account import hold
from rookery.training.backtest.records import COSTS, WindowRecord


@dataclass(frozen=True)
class Contribution:
    """What one symbol did in a window of T steps, T values each.

    Attributes:
        before, after: Units held before and after the step's orders.
        old, new: What they earned: `before` up to the open, `after` from the open on; costs are not subtracted.
        costs: What was paid. A portfolio pays one sum, which is divided by traded value.
        traded: The value of the fills.
        held: The value of the position at the close as a part of the equity; negative if short.
        trades: The number of fills.
    """

    before: np.ndarray
    after: np.ndarray
    old: np.ndarray
    new: np.ndarray
    costs: np.ndarray
    traded: np.ndarray
    held: np.ndarray
    trades: np.ndarray

    @property
    def profit(self) -> np.ndarray:
        return self.old + self.new


def contribution(record: WindowRecord, place: int) -> Contribution:
    """Of the symbol at this place."""
    opens, closes = record.opens[:, place], record.closes[:, place]
    after = record.positions[:, place]
    before = np.concatenate([[0.0], after[:-1]])
    old, new = before * (opens[1:] - closes[:-1]), after * (closes[1:] - opens[1:])
    paid = np.sum([record.costs[kind] for kind in COSTS], axis=0)
    traded = np.abs(after - before) * opens[1:]
    equity = np.where(record.equity > 0, record.equity, np.inf)
    if len(record.symbols) == 1:  # what its account earned is known exactly
        whole = np.diff(record.equity) + paid
        new = np.where(after == 0, 0.0, whole - np.where(before == 0, 0.0, old))
        return Contribution(
            before, after, whole - new, new, paid, traded, np.sign(after) * record.exposure, record.trades
        )
    share = traded / np.maximum(_traded(record), 1e-300)
    weights = after * closes[1:] / equity[1:]
    return Contribution(before, after, old, new, share * paid, traded, weights, (traded > 0).astype(float))


def _traded(record: WindowRecord) -> np.ndarray:
    """The value of all trades of each step."""
    before = np.concatenate([np.zeros((1, record.positions.shape[1])), record.positions[:-1]])
    return (np.abs(record.positions - before) * record.opens[1:]).sum(1)


def asset_rows(records: Sequence[WindowRecord], scales: Sequence[float]) -> list[dict[str, Any]]:
    """One row per symbol over all windows; amounts of each window times its scale."""
    symbols = list(dict.fromkeys(symbol for record in records for symbol in record.symbols))
    return [_row(symbol, records, scales) for symbol in symbols]


def _row(symbol: str, records: Sequence[WindowRecord], scales: Sequence[float]) -> dict[str, Any]:
    chosen = [(record, scale) for record, scale in zip(records, scales, strict=True) if symbol in record.symbols]
    parts = [(contribution(record, record.symbols.index(symbol)), scale) for record, scale in chosen]
    growth = np.prod([_price_ratio(record, record.symbols.index(symbol)) for record, _ in chosen])
    profits, weights, before = (
        np.concatenate([getattr(part, name) for part, _ in parts]) for name in ("profit", "held", "before")
    )
    moved = profits[((weights != 0) | (before != 0)) & (profits != 0)]
    gross = float(sum(scale * part.profit.sum() for part, scale in parts))
    costs = float(sum(scale * part.costs.sum() for part, scale in parts))
    equity = [np.where(record.equity > 0, record.equity, np.inf)[:-1] for record, _ in chosen]
    return {
        "symbol": symbol,
        "profit_before_costs": gross,
        "costs": costs,
        "profit": gross - costs,
        "trades": int(sum(part.trades.sum() for part, _ in parts)),
        "turnover": float(sum((part.traded / value).sum() for (part, _), value in zip(parts, equity, strict=True))),
        "exposure": float(np.abs(weights).mean()) if len(weights) else 0.0,
        "time_in_market": float((weights != 0).mean()) if len(weights) else 0.0,
        "hit_rate": float((moved > 0).mean()) if len(moved) else None,
        "hold_return": float(growth - 1),
    }


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


@dataclass(frozen=True)
class Trade:
    """A position of one symbol on one side, however often it was changed while it was held.

    Attributes:
        symbol, side: The side is "long" or "short".
        entered, left: When its first and last fill happened: at the open after this time, UTC seconds.
        bars: How many bars it was held.
        entry_price, exit_price: Of these fills; of a position that is still open, the last close.
        size: The largest part of the equity that it was.
        profit_before_costs, costs, profit: In the account's currency.
        part: The profit as a part of the equity before its first fill.
        closed: Whether it was closed before its window ended.
    """

    symbol: str
    side: str
    entered: int
    left: int
    bars: int
    entry_price: float
    exit_price: float
    size: float
    profit_before_costs: float
    costs: float
    profit: float
    part: float
    closed: bool


TRADE_FIELDS = tuple(Trade.__dataclass_fields__)


def trades_of(records: Sequence[WindowRecord], scales: Sequence[float]) -> list[Trade]:
    """All trades, the first ones first. The profits of all of them add up to that of the account."""
    found = [
        trade
        for record, scale in zip(records, scales, strict=True)
        for place in range(len(record.symbols))
        for trade in _of_symbol(record, place, scale)
    ]
    return sorted(found, key=lambda trade: (trade.entered, trade.left))


def _of_symbol(record: WindowRecord, place: int, scale: float) -> Iterator[Trade]:
    part = contribution(record, place)
    opens, closes = record.opens[1:, place], record.closes[1:, place]
    sides = np.sign(part.after)
    changes = np.flatnonzero(np.diff(sides, prepend=0.0))
    total = np.abs(part.before) + np.abs(part.after)
    leaving = np.where(sides == np.sign(part.before), 1.0, np.abs(part.before) / np.where(total > 0, total, 1.0))
    for first, end in pairwise([*changes.tolist(), len(sides)]):
        if sides[first] == 0:
            continue
        closed = end < len(sides)
        inside = slice(first + 1, end)  # whole steps; of the first and the last only what belongs to this position
        gross = part.new[first] + part.profit[inside].sum() + (part.old[end] if closed else 0.0)
        paid = part.costs[first] * (1 - leaving[first] if part.before[first] else 1.0) + part.costs[inside].sum()
        paid += part.costs[end] * leaving[end] if closed else 0.0
        equity = record.equity[first]
        yield Trade(
            symbol=record.symbols[place],
            side="long" if sides[first] > 0 else "short",
            entered=int(record.times[first]),
            left=int(record.times[end]),
            bars=end - first,
            entry_price=float(opens[first]),
            exit_price=float(opens[end] if closed else closes[-1]),
            size=float(np.abs(part.held[first:end]).max()),
            profit_before_costs=float(scale * gross),
            costs=float(scale * paid),
            profit=float(scale * (gross - paid)),
            part=float((gross - paid) / equity) if equity > 0 else 0.0,
            closed=closed,
        )


def trade_figures(trades: Sequence[Trade]) -> dict[str, Any]:
    """What the trades have in common; None where there is none."""
    profits = np.array([trade.profit for trade in trades])
    won, lost = profits[profits > 0], -profits[profits < 0]
    days = np.array([trade.left - trade.entered for trade in trades]) / DAY
    parts = np.array([trade.part for trade in trades])
    known = len(trades) > 0
    return {
        "count": len(trades),
        "open": sum(not trade.closed for trade in trades),
        "long": sum(trade.side == "long" for trade in trades),
        "won": float((profits > 0).mean()) if known else None,
        "profit_factor": float(won.sum() / lost.sum()) if len(lost) else None,
        "mean_win": float(parts[profits > 0].mean()) if len(won) else None,
        "mean_loss": float(parts[profits < 0].mean()) if len(lost) else None,
        "days_held": float(days.mean()) if known else None,
        "longest_days": float(days.max()) if known else None,
        "costs": float(sum(trade.costs for trade in trades)),
    }


def trades_csv(trades: Sequence[Trade]) -> str:
    """A table with a row per trade; times are UTC."""
    lines = [",".join(TRADE_FIELDS)]
    for trade in trades:
        values: Mapping[str, Any] = asdict(trade) | {"entered": date_text(trade.entered), "left": date_text(trade.left)}
        lines.append(",".join(_cell(values[name]) for name in TRADE_FIELDS))
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.10g}" if isinstance(value, float) else str(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if any(mark in text for mark in ',"\n') else text
