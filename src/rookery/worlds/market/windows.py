"""Where episodes run: the fixed windows of a split, and the rows at which random episodes start."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from rookery.data.splits import holdout
from rookery.data.timeframes import timeframe_name
from rookery.errors import DataError, OptionError
from rookery.worlds.market.market import Market

SPLITS = ("all", "train", "validation", "test")


class Windows(NamedTuple):
    """Rows at which episodes start and end. At the first row of an episode the agent decides for the first time; at the
    last one it is truncated."""

    windows: np.ndarray  # (n, 2) first and last row of each fixed window
    starts: np.ndarray  # (m, 2) first and last row of episodes that start at random
    groups: np.ndarray  # (blocks, 2) the range in `starts` of each symbol


def find_windows(market: Market, lookback: int, length: int, split: Any, embargo: int | None = None) -> Windows:
    """The windows of a split, and all starts in them of episodes of `length` steps (0: to the end of the window).

    No window crosses a gap, or begins before `lookback` rows are known.
    """
    windows: list[tuple[int, int]] = []
    starts: list[Any] = []
    groups: list[tuple[int, int]] = []
    ranges = time_ranges(market, split, lookback if embargo is None else embargo)
    for block_first, block_last in market.blocks:
        begin = len(starts)
        inside = (market.stretches[:, 0] >= block_first) & (market.stretches[:, 1] <= block_last)
        for first, last in market.stretches[inside]:
            times = market.times[first : last + 1]
            for start, end in ranges:
                a = max(first + lookback - 1, first + int(np.searchsorted(times, start)))
                b = first + int(np.searchsorted(times, end)) - 1
                if b > a:
                    windows.append((a, b))
                    latest = max(b - length, a) if length else a
                    rows = np.arange(a, latest + 1)
                    starts.extend(np.stack([rows, np.full_like(rows, b)], axis=1))
        groups.append((begin, len(starts)))
    _refuse_nothing(market, split, lookback, groups)
    return Windows(*(np.array(rows, np.int64).reshape(-1, 2) for rows in (windows, starts, groups)))


def time_ranges(market: Market, split: Any, embargo: int) -> list[tuple[int, int]]:
    """A split as ranges of time, from its first bar up to before its end.

    `split` is a name, or a list of [start, end) as times or as positions among all times of the data.
    """
    axis = np.unique(market.times)
    if isinstance(split, str):
        if split not in SPLITS:
            raise OptionError(f"split should be one of {', '.join(SPLITS)}, or a list of [start, end], got {split!r}")
        if split == "all":
            return [(int(axis[0]), int(axis[-1]) + 1)]
        parts = holdout(len(axis), embargo=embargo)
        split = getattr(parts, split)
    edges = np.append(axis, axis[-1] + 1)
    try:
        return [(_second(start, edges), _second(end, edges)) for start, end in split]
    except (TypeError, ValueError) as error:
        raise OptionError(f"split should be a list of [start, end], got {split!r}: {error}") from None


def _second(value: Any, edges: np.ndarray) -> int:
    if isinstance(value, (int, np.integer)) and abs(int(value)) < len(edges):
        return int(edges[int(value)])
    if isinstance(value, (int, float, np.integer, np.floating)):
        return int(value)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _refuse_nothing(market: Market, split: Any, lookback: int, groups: Sequence[tuple[int, int]]) -> None:
    for number, (begin, end) in enumerate(groups):
        if begin == end:
            symbol = market.symbols[number] if len(groups) > 1 else ", ".join(market.symbols)
            longest = max((int(b - a + 1) for a, b in market.stretches), default=0)
            raise DataError(
                f"{market.place}: {symbol} has no window for the split {split!r}: an episode needs over "
                f"{lookback} bars of {timeframe_name(market.timeframe)} without a gap; the longest has {longest}"
            )
