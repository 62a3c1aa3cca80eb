"""An account bar by bar as a file: one NumPy array with a field for each column, without pickles.

>>> import numpy as np
>>> rows = np.load("runs/first/report/account.npy")  # doctest: +SKIP
>>> rows["agent"] - rows["hold"]  # doctest: +SKIP
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.errors import FileError
from rookery.files import open_plain, replace_file
from rookery.training.backtest.joined_account import STRATEGIES, JoinedAccount
from rookery.training.backtest.records import COSTS

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
    raise FileError(f"{printable(path)} is damaged: it holds no account; `rookery backtest` writes it anew")


def _is_account(rows: Any) -> bool:
    """Whether an array has the fields of an account, plain numbers, and times that go forward."""
    names = rows.dtype.names or ()
    plain = all(rows.dtype[name].kind in "iuf" and rows.dtype[name].shape == () for name in names)
    return bool(plain and set(FIELDS) <= set(names) and rows.ndim == 1 and len(rows) and _ascends(rows["time"]))


def _ascends(times: np.ndarray) -> bool:
    return bool((np.diff(times) >= 0).all())
