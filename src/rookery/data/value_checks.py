"""Looks for absurd prices, volumes and features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rookery.data.dataset import BAR_COLUMNS, PRICES, Bars, Dataset
from rookery.data.gaps import segments
from rookery.data.problem import ERROR, NOTE, Problem, at_rows

ABSURD, LARGE = 100.0, 5.0  # ratios of a price to the last close: no market does that in a bar, few do
ROUNDING = 1e-6  # of a price; adjusted prices are rounded


def value_problems(bars: Bars) -> Iterator[Problem]:
    """Prices and volumes."""
    opened, high, low, close = prices = [bars[name] for name in PRICES]
    volume, bad = bars["volume"], np.zeros(len(bars), bool)
    for name, values in zip(BAR_COLUMNS, (*prices, volume), strict=True):
        finite = np.isfinite(values)
        yield from at_rows(bars, np.flatnonzero(~finite), f"{name} is no finite number: remove the bar", value=values)
        bad |= ~finite
        if name != "volume":
            yield from at_rows(bars, np.flatnonzero(finite & (values <= 0)), f"{name} should be > 0", value=values)
            bad |= values <= 0
    yield from at_rows(bars, np.flatnonzero(volume < 0), "volume should be >= 0", value=volume)
    yield from at_rows(bars, np.flatnonzero(~bad & (high < low)), "high is below low", value=high)
    bad |= high < low
    for name, values in (("open", opened), ("close", close)):
        outside = (values > high * (1 + ROUNDING)) | (values < low * (1 - ROUNDING))
        yield from at_rows(bars, np.flatnonzero(~bad & outside), f"{name} is not between low and high", value=values)
    if not bad.any():
        yield from _of_jumps(bars, np.stack(prices))


def _of_jumps(bars: Bars, prices: np.ndarray) -> Iterator[Problem]:
    last = np.concatenate([prices[:1, 0], prices[3, :-1]])
    ratio = np.maximum(prices / last, last / prices).max(axis=0)
    what = "a price is {:,.0f} times or a fraction of the last close"
    for rows, severity in ((ratio > ABSURD, ERROR), ((ratio > LARGE) & (ratio <= ABSURD), NOTE)):
        where = np.flatnonzero(rows)
        if len(where):
            text = what.format(ratio[where[0]])
            yield from at_rows(bars, where, f"{text}: check for a split or a wrong unit", severity)


def feature_problems(bars: Bars, dataset: Dataset) -> Iterator[Problem]:
    """Features may be missing at the beginning, and after a gap; a world never starts there."""
    names = [name for name in bars.columns if name not in BAR_COLUMNS]
    firsts = segments(bars.times, dataset.timeframe, dataset.calendar)[:, 0] if names else np.empty(0, np.int64)
    for name in names:
        values = bars[name]
        yield from at_rows(bars, np.flatnonzero(np.isinf(values)), f"{name} is infinite", value=values)
        missing = np.isnan(values)
        if missing.any():
            begins = missing & ~np.concatenate([[False], missing[:-1]])
            begins[firsts] = False
            yield from at_rows(bars, np.flatnonzero(begins), f"{name} is missing after its first bars")
