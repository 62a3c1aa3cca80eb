"""Looks for bars that would corrupt a world, each named by symbol, row and time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rookery.console import printable
from rookery.data.dataset import BAR_COLUMNS, Bars, Dataset
from rookery.data.problem import ERROR, Problem
from rookery.data.time_checks import calendar_problems, order_problems
from rookery.data.value_checks import feature_problems, value_problems
from rookery.errors import DataError


def problems(dataset: Dataset) -> list[Problem]:
    """Everything that is wrong with the bars, errors first."""
    found = list(_of_dataset(dataset))
    for bars in dataset.bars:
        broken = list(_of_layout(bars))
        wrong = broken or list(order_problems(bars, dataset.timeframe))
        found += wrong if broken else [*wrong, *value_problems(bars)]
        if not wrong:
            found += [*calendar_problems(bars, dataset), *feature_problems(bars, dataset)]
    return sorted(found, key=lambda problem: problem.severity != ERROR)


def refuse_bad(dataset: Dataset) -> None:
    """Raise a DataError that names the first error, if there is one."""
    errors = [problem for problem in problems(dataset) if problem.severity == ERROR]
    if errors:
        place = printable(dataset.place or "the data")
        more = f"; {len(errors) - 1} more errors: `rookery data check` lists them" if len(errors) > 1 else ""
        raise DataError(f"{place}: {errors[0]}{more}")


def _of_dataset(dataset: Dataset) -> Iterator[Problem]:
    if not dataset.bars:
        yield Problem("", None, None, "there is no symbol")
    for symbol in dict.fromkeys(dataset.symbols):
        if dataset.symbols.count(symbol) > 1:
            yield Problem(symbol, None, None, "the symbol occurs twice: remove or rename one")


def _of_layout(bars: Bars) -> Iterator[Problem]:
    """What makes the other checks impossible."""
    missing = [name for name in BAR_COLUMNS if name not in bars.columns]
    if missing:
        yield Problem(bars.symbol, None, None, f"there is no column {', '.join(missing)}")
    for name, values in bars.columns.items():
        if np.shape(values) != np.shape(bars.times):
            what = f"the column {name} has the shape {np.shape(values)}, the times have {np.shape(bars.times)}"
            yield Problem(bars.symbol, None, None, what)
        elif np.asarray(values).dtype.kind not in "fiu":
            yield Problem(bars.symbol, None, None, f"the column {name} holds no numbers")
    if len(bars) == 0:
        yield Problem(bars.symbol, None, None, "there are no bars")
    elif np.asarray(bars.times).dtype.kind not in "iu":
        yield Problem(bars.symbol, None, None, "the times should be integers: seconds since 1970 in UTC")
