"""Joins stored bars with what their source has now. Stored rows stay as they are, bit for bit, unless asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.features import add_features
from rookery.errors import DataError


@dataclass(frozen=True)
class Joined:
    """Stored bars and those that were added.

    Attributes:
        bars: The result, with all columns of the stored bars.
        added: Number of bars after the last stored one.
        revised: Times of stored bars that the source has with other values now.
        filled: Times of bars between the stored ones that the source has now.
        rescaled: Whether most compared bars have other prices now, as after a split with adjusted prices.
        recomputed: Features that have other values in stored rows, when computed now.
    """

    bars: Bars
    added: int
    revised: np.ndarray
    filled: np.ndarray
    rescaled: bool = False
    recomputed: tuple[str, ...] = ()


def joined(stored: Bars, found: Bars, data: Dataset, revise: bool) -> Joined:
    """The stored bars, and those of `found` that are newer.

    Columns that the source does not have are features: they are computed again, from all bars.

    Args:
        found: What the source has now: at least the bars since the last stored one.
        data: The dataset of the stored bars, for its timeframe, calendar and place.
        revise: Whether revised and filled bars are taken from the source.
    """
    own = [name for name in stored.columns if name in found.columns]
    rows = np.searchsorted(stored.times, found.times)
    known = (rows < len(stored)) & (stored.times[np.minimum(rows, len(stored) - 1)] == found.times)
    differs = np.zeros(len(found), bool)
    for name in own:
        differs[known] |= ~_same(stored[name][rows[known]], found[name][known])
    newer = found.times > stored.times[-1]
    between = ~known & ~newer & (found.times > stored.times[0])
    taken = newer | (between | differs if revise else False)
    changed = bool(revise and (differs | between).any())
    bars, recomputed = stored, tuple[str, ...]()
    if taken.any():
        bars, recomputed = _with_features(_merged(stored, found, own, taken), stored, data, keep=not changed)
    closes = _same(stored["close"][rows[known]], found["close"][known])
    rescaled = bool(np.count_nonzero(~closes) > len(closes) / 2)
    return Joined(bars, int(newer.sum()), found.times[differs], found.times[between], rescaled, recomputed)


def _merged(stored: Bars, found: Bars, own: list[str], taken: np.ndarray) -> Bars:
    kept = ~np.isin(stored.times, found.times[taken])
    times = np.concatenate([stored.times[kept], found.times[taken]])
    order = np.argsort(times, kind="stable")
    columns = {name: np.concatenate([stored[name][kept], found[name][taken]])[order] for name in own}
    return Bars(stored.symbol, times[order], columns)


def _with_features(bars: Bars, stored: Bars, data: Dataset, keep: bool) -> tuple[Bars, tuple[str, ...]]:
    """All columns of the stored bars, in their order. `keep`: rows that were stored keep their values."""
    names = [name for name in stored.columns if name not in bars.columns]
    if not names:
        return bars, ()
    try:
        made = add_features(Dataset((bars,), data.timeframe, data.calendar), names)[bars.symbol]
    except DataError as error:
        raise DataError(f"{data.place}: its features cannot be computed for new bars: {error}") from None
    different = []
    columns = dict(made.columns)
    for name in names if keep else ():
        old = stored[name]
        if not _same(old, made[name][: len(old)]).all():
            different.append(name)
        columns[name] = np.concatenate([old, made[name][len(old) :]])
    return Bars(bars.symbol, bars.times, {name: columns[name] for name in stored.columns}), tuple(different)


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one == other) | (np.isnan(one) & np.isnan(other))
