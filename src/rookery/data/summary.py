"""What a dataset holds, as plain values for tables and JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.gaps import gap_rows
from rookery.data.problem import Problem, time_text
from rookery.data.timeframes import timeframe_name


def summary(dataset: Dataset) -> dict[str, Any]:
    """Symbols, spans, gaps, columns, hash and history.

    >>> from rookery.data.synth import synthesise
    >>> summary(synthesise(1, 10))["symbols"][0]["bars"]
    10
    """
    return {
        "place": dataset.place,
        "timeframe": timeframe_name(dataset.timeframe),
        "calendar": dataset.calendar,
        "one_price": dataset.one_price,
        "columns": list(dataset.column_names) if dataset.bars else [],
        "symbols": [_of_symbol(bars, dataset) for bars in dataset.bars],
        "hash": dataset.hash,
        "history": [dict(entry) for entry in dataset.history],
    }


def _of_symbol(bars: Bars, dataset: Dataset) -> dict[str, Any]:
    rows = gap_rows(bars.times, dataset.timeframe, dataset.calendar)
    missing = int(np.sum((bars.times[rows + 1] - bars.times[rows]) // dataset.timeframe - 1)) if len(rows) else 0
    first, last = (time_text(int(bars.times[row])) for row in (0, -1)) if len(bars) else ("", "")
    return {
        "symbol": bars.symbol, "bars": len(bars), "first": first, "last": last, "gaps": len(rows), "missing": missing,
    }  # fmt: skip


def problem_values(problem: Problem) -> dict[str, Any]:
    """A problem as plain values."""
    time = None if problem.time is None else time_text(problem.time)
    return {
        "severity": problem.severity, "symbol": problem.symbol, "row": problem.row, "time": time, "what": problem.what,
        "count": problem.count,
    }  # fmt: skip
