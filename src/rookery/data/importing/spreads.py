"""Spreads in the one unit that worlds charge: half of the spread, as a part of the price. A 3 may be three points,
three dollars or 300 %, so the user names the unit, or the program that wrote the file is known by its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.console import printable
from rookery.data.importing.sources import ImportOptions, SourceTable, plain_name
from rookery.errors import DataError
from rookery.extras import load_polars

METATRADER = ("tickvol", "tick_volume")  # columns beside which a spread is in points
MOST = 0.02  # of the price, in the median bar
WIDEST = 0.2  # in any bar: wider ones are errors of a feed, and would be charged in full
MOST_DIGITS = 8


def half_spread(
    table: SourceTable, values: np.ndarray, columns: Mapping[str, str], close: np.ndarray, options: ImportOptions
) -> np.ndarray | None:
    """The column `spread` as half of it and a part of the price; None, with a note, if nobody says its unit."""
    unit, symbol = options.spread, printable(table.symbol)
    if unit is None and _is_metatrader(table, values):
        unit = "points"
        options.note(f"{symbol}: the spread is in points, as in all files of MetaTrader; --spread names another unit")
    if unit is None:
        options.note(
            f"{symbol}: the column 'spread' is omitted, because its unit is not known: give --spread points, price or "
            "fraction, or half-points and so on if it is measured from the middle price"
        )
        return None
    half = values if unit.startswith("half-") else values / 2
    if unit.endswith("points"):
        prices = [columns[name] for name in ("open", "high", "low", "close") if name in columns]
        half = half * 10.0 ** -(_digits(table, prices) if options.digits is None else options.digits)
    table.refuse_where(half < 0, "the spread is negative")
    found = half if unit.endswith("fraction") else half / close
    refuse_absurd(found, f"{printable(table.place)}: {symbol}", unit)
    table.refuse_where(2 * found > WIDEST, lambda row: too_wide(found[row]))
    return found


def _is_metatrader(table: SourceTable, values: np.ndarray) -> bool:
    """Whether spreads are in points: MetaTrader writes integers. Others were converted by somebody."""
    known = values[np.isfinite(values)]
    return any(plain_name(name) in METATRADER for name in table.frame.columns) and bool((known == known.round()).all())


def _digits(table: SourceTable, columns: Sequence[str]) -> int:
    """How many digits the prices have behind the point; a point is one of the last."""
    polars = load_polars()
    texts = [table.frame[name].cast(polars.String).str.strip_chars() for name in columns]
    texts = [
        text.cast(polars.Float64).cast(polars.String) if text.str.contains("(?i)e").any() else text for text in texts
    ]
    longest = [text.str.extract(r"[.,](\d+)$").str.len_chars().max() for text in texts]
    return min(max((int(length) for length in longest if length is not None), default=0), MOST_DIGITS)


def refuse_absurd(half: np.ndarray, where: str, unit: str = "a part of the price") -> None:
    """Refuse spreads that can only be a mistake about their unit: they would be charged at every trade."""
    known = half[np.isfinite(half)]
    middle = 2 * float(np.median(known)) if len(known) else 0.0
    if middle > MOST:
        raise DataError(
            f"{where}: read as {unit}, the median spread is {100 * middle:,.4g} % of the price, and more than "
            f"{100 * MOST:g} % can only be another unit: import the bars with the right --spread"
        )


def too_wide(half: float) -> str:
    """What is wrong with the spread of one bar."""
    return f"the spread is {200 * half:,.4g} % of the price, more than {100 * WIDEST:g} %: remove or correct the bar"
