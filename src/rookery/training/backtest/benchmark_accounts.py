"""Accounts to compare an agent with, on the same bars: buy and hold, and equal weights."""

from __future__ import annotations

import numpy as np

from rookery.training.backtest.records import WindowRecord

DAY = 86_400


def hold(record: WindowRecord) -> np.ndarray:
    """The equity, T + 1 values, of an account that spends equal parts on all symbols at the first open at which the
    agent can trade, pays the costs of buying and then those of holding, and never trades again."""
    equity = np.repeat(record.equity[:1], len(record) + 1)
    if len(record):
        units = _bought(record)
        equity[1:] = _held(record, units, 1, len(equity))
    return equity


def equal_weight(record: WindowRecord) -> np.ndarray:
    """The same for an account that trades back to equal parts at the first open of each UTC day, and pays for it. With
    one symbol there is nothing to trade back."""
    if len(record.symbols) == 1:
        return hold(record)
    equity = np.repeat(record.equity[:1], len(record) + 1)
    starts = _first_bars_of_days(record.times)
    paid = 0.0  # for holding, until the next rebalancing
    units = np.zeros(len(record.symbols))
    for start, end in zip(starts, [*starts[1:], len(equity)], strict=True):
        units = _bought(record) if start == 1 else _rebalanced(units, paid, record.opens[start], record.entry_cost)
        equity[start:end] = _held(record, units, start, end)
        paid = float(record.closes[end - 1] @ units - equity[end - 1])
    return equity


def _bought(record: WindowRecord) -> np.ndarray:
    """Units for equal parts of the cash at the first open, costs included."""
    return record.equity[0] / len(record.symbols) / (record.opens[1] * (1 + record.entry_cost))


def _held(record: WindowRecord, units: np.ndarray, start: int, end: int) -> np.ndarray:
    """The equity at the closes of the bars [start, end), after the costs of holding from `start` on."""
    values = record.closes[start:end] * units
    return values.sum(1) - np.cumsum((values * record.carry[start - 1 : end - 1]).sum(1))


def _rebalanced(units: np.ndarray, paid: float, prices: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Units of equal value, after what was paid for holding and the costs of the trades that lead there."""
    values = units * prices
    wealth = values.sum() - paid
    traded = np.abs(wealth / len(units) - values)
    return (wealth - cost @ traded) / len(units) / prices


def _first_bars_of_days(times: np.ndarray) -> list[int]:
    """Indices, from 1 on, of the bars that begin a day. A bar that is complete at midnight is the day's last."""
    days = (times - 1) // DAY
    return [1, *(np.flatnonzero(np.diff(days[1:])) + 2).tolist()] if len(times) > 1 else []
