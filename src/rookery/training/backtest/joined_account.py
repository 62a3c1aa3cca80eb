"""Several windows as one account: windows of the same symbols follow each other, accounts of other symbols are added.

A window begins with what the one before it ended with, so that amounts of later windows are scaled by that. Between
windows nothing is held.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.errors import DataError, FileError
from rookery.files import open_plain, replace_file
from rookery.training.backtest.records import COSTS, WindowRecord

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


STRATEGIES = ("agent", "hold", "equal_weight")
CURVES: Mapping[str, Callable[[WindowRecord], np.ndarray]] = {
    "agent": lambda record: record.equity,
    "hold": hold,
    "equal_weight": equal_weight,
}


@dataclass(frozen=True)
class JoinedAccount:
    """An account over N steps. Arrays have N + 1 values where they begin before the first step, else N.

    Attributes:
        times: N + 1 values, UTC seconds.
        equity: By strategy (agent, hold, equal_weight), N + 1 values each.
        traded: The value that the agent traded in each step.
        trades: Its fills in each step.
        costs: The amounts that it paid in each step, by kind.
        exposed: The absolute value of its positions after each step.
        weights: Symbol -> value of its position as a part of the equity, N values.
        accounts: How many accounts were added, one for each group of symbols.
    """

    times: np.ndarray
    equity: Mapping[str, np.ndarray]
    traded: np.ndarray
    trades: np.ndarray
    costs: Mapping[str, np.ndarray]
    exposed: np.ndarray
    weights: Mapping[str, np.ndarray]
    accounts: int = 1

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.times) - 1

    def returns(self, strategy: str = "agent") -> np.ndarray:
        """The return of each step; 0 once everything is lost."""
        before, after = self.equity[strategy][:-1], self.equity[strategy][1:]
        return np.where(before > 0, after / np.where(before > 0, before, 1.0) - 1, 0.0)

    @property
    def turnover(self) -> np.ndarray:
        """The traded value of each step as a part of the equity before it."""
        before = self.equity["agent"][:-1]
        return np.where(before > 0, self.traded / np.where(before > 0, before, 1.0), 0.0)

    @property
    def exposure(self) -> np.ndarray:
        """The value of all positions, long or short, as a part of the equity, after each step."""
        after = self.equity["agent"][1:]
        return np.where(after > 0, self.exposed / np.where(after > 0, after, 1.0), 0.0)


def join(records: Sequence[WindowRecord]) -> JoinedAccount:
    """The account of these windows."""
    groups: dict[tuple[str, ...], list[WindowRecord]] = {}
    for record in sorted(records, key=lambda record: int(record.times[0])):
        groups.setdefault(record.symbols, []).append(record)
    if not groups or not any(map(len, records)):
        raise DataError("the split has no window of at least two bars, so that there is nothing to report")
    return _add([_chain(windows) for windows in groups.values()])


def join_folds(records: Sequence[WindowRecord]) -> dict[int, JoinedAccount]:
    """The account of each fold of a walk-forward test, by its number; none of another test."""
    folds = sorted({record.fold for record in records if record.fold is not None})
    return {fold: join([record for record in records if record.fold == fold]) for fold in folds}


def window_scales(records: Sequence[WindowRecord]) -> list[float]:
    """For each window the factor by which its amounts are counted."""
    scales = dict.fromkeys(range(len(records)), 1.0)
    for symbols in {record.symbols for record in records}:
        places = [k for k, record in enumerate(records) if record.symbols == symbols]
        places.sort(key=lambda k: int(records[k].times[0]))
        scales |= zip(places, _scales([records[k].equity for k in places]), strict=True)
    return list(scales.values())


def _chain(windows: Sequence[WindowRecord]) -> JoinedAccount:
    """Windows of the same symbols, one after another."""
    first = windows[0]
    for before, after in pairwise(windows):
        if after.times[0] < before.times[-1]:
            raise DataError(
                f"windows of {', '.join(first.symbols)} overlap, so that their accounts cannot be joined to one"
            )
    equity = {name: _chained([CURVES[name](window) for window in windows]) for name in STRATEGIES}
    scales = _scales([window.equity for window in windows])
    scaled = list(zip(windows, scales, strict=True))
    return JoinedAccount(
        times=np.concatenate([first.times[:1], *(window.times[1:] for window in windows)]),
        equity=equity,
        traded=np.concatenate([scale * window.turnover * window.equity[:-1] for window, scale in scaled]),
        trades=np.concatenate([window.trades for window in windows]),
        costs={kind: np.concatenate([scale * window.costs[kind] for window, scale in scaled]) for kind in COSTS},
        exposed=np.concatenate([scale * window.exposure * window.equity[1:] for window, scale in scaled]),
        weights={
            symbol: np.concatenate([_weights(window, k) for window in windows])
            for k, symbol in enumerate(first.symbols)
        },
    )


def _weights(window: WindowRecord, place: int) -> np.ndarray:
    """The value of one symbol's position as a part of the equity; negative if short."""
    if len(window.symbols) == 1:
        return np.sign(window.positions[:, 0]) * window.exposure
    equity = window.equity[1:]
    return window.positions[:, place] * window.closes[1:, place] / np.where(equity > 0, equity, np.inf)


def _scales(curves: Sequence[np.ndarray]) -> list[float]:
    """For each curve the factor with which it continues the one before it."""
    scales = [1.0]
    for before, after in pairwise(curves):
        scales.append(scales[-1] * float(before[-1] / after[0]))
    return scales


def _chained(curves: Sequence[np.ndarray]) -> np.ndarray:
    scaled = [scale * curve for scale, curve in zip(_scales(curves), curves, strict=True)]
    return np.concatenate([scaled[0][:1], *(curve[1:] for curve in scaled)])


def _add(accounts: Sequence[JoinedAccount]) -> JoinedAccount:
    """Accounts of different symbols side by side; at times at which one has no bar it keeps its value."""
    if len(accounts) == 1:
        return accounts[0]
    times = np.unique(np.concatenate([account.times for account in accounts]))
    places = [np.searchsorted(times[1:], account.times[1:]) for account in accounts]

    def summed(series: Iterable[np.ndarray]) -> np.ndarray:
        total = np.zeros(len(times) - 1)
        for place, values in zip(places, series, strict=True):
            total[place] += values
        return total

    held = [np.searchsorted(account.times, times, "right") - 1 for account in accounts]
    equity = {
        name: sum(
            (account.equity[name][np.maximum(at, 0)] for account, at in zip(accounts, held, strict=True)),
            np.zeros(len(times)),
        )
        for name in STRATEGIES
    }
    return JoinedAccount(
        times=times,
        equity=equity,
        traded=summed(account.traded for account in accounts),
        trades=summed(account.trades for account in accounts),
        costs={kind: summed(account.costs[kind] for account in accounts) for kind in COSTS},
        exposed=_kept(times, accounts, [account.exposed for account in accounts]),
        weights={
            symbol: _kept(times, [account], [weight * account.equity["agent"][1:]])
            / np.maximum(equity["agent"][1:], 1e-300)
            for account in accounts
            for symbol, weight in account.weights.items()
        },
        accounts=len(accounts),
    )


def _kept(times: np.ndarray, accounts: Sequence[JoinedAccount], values: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of values that last until the account's next bar; 0 before its first and after its last."""
    total = np.zeros(len(times) - 1)
    for account, series in zip(accounts, values, strict=True):
        at = np.searchsorted(account.times[1:], times[1:], "right") - 1
        total += np.where((at >= 0) & (times[1:] <= account.times[-1]), series[np.maximum(at, 0)], 0.0)
    return total


NAME = "account.npy"
WEIGHT = "weight "  # before the symbol, in the name of a field
VERSION = 3, 0  # of the format: symbols may have letters of any language
LARGEST = 256 << 20  # bytes that are read
LARGEST_HEADER = 1 << 16
AMOUNTS = ("traded", "trades", "exposed", *COSTS)  # of the bar; the first row has none
FIELDS = ("time", *STRATEGIES, *AMOUNTS)


def fold_name(fold: int) -> str:
    """The file of one fold of a walk-forward test."""
    return f"fold-{fold}.npy"


def write_account(path: Path, account: JoinedAccount) -> None:
    """Write an account: `time` in UTC seconds, what the strategies are worth, what the agent traded, paid and held at
    each bar, and `weight SYMBOL`, the position in it as a part of the equity."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, account_rows(account), VERSION, allow_pickle=False)
    replace_file(path, [stream.getvalue()])


def account_rows(account: JoinedAccount) -> np.ndarray:
    """The account as an array with named fields, one row per bar."""
    numbers = [(name, "<f8") for name in (*STRATEGIES, *AMOUNTS)]
    weights = [(WEIGHT + symbol, "<f4") for symbol in account.weights]
    rows = np.zeros(len(account.times), [("time", "<i8"), *numbers, *weights])
    rows["time"] = account.times
    for name in STRATEGIES:
        rows[name] = account.equity[name]
    steps = {"traded": account.traded, "trades": account.trades, "exposed": account.exposed, **account.costs}
    steps |= {WEIGHT + symbol: values for symbol, values in account.weights.items()}
    for name, values in steps.items():
        rows[name][1:] = values
    return rows


def read_account(path: Path) -> np.ndarray:
    """The rows of a file, which may be from anybody: FileError if it is not what `write_account` writes."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise FileError(f"{printable(path)} is larger than {LARGEST >> 20} MiB, the most that is read")
    try:
        rows = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False, max_header_size=LARGEST_HEADER)
        if _is_account(rows):
            return rows
    except Exception:  # noqa: BLE001, S110 - whatever a damaged header makes of NumPy
        pass
    raise FileError(f"{printable(path)} is damaged: it holds no account; `rookery backtest` writes it again")


def _is_account(rows: Any) -> bool:
    """Whether an array has the fields of an account, plain numbers, and times that go forward."""
    names = rows.dtype.names or ()
    plain = all(rows.dtype[name].kind in "iuf" and rows.dtype[name].shape == () for name in names)
    return bool(plain and set(FIELDS) <= set(names) and rows.ndim == 1 and len(rows) and _ascends(rows["time"]))


def _ascends(times: np.ndarray) -> bool:
    return bool((np.diff(times) >= 0).all())
