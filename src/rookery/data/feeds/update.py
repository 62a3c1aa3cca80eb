"""Brings files of bars up to date from where they came from."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.data.calendars import timeframe_name
from rookery.data.dataset import Bars, Dataset
from rookery.data.features import add_features
from rookery.data.feeds.download import Progress, no_progress
from rookery.data.feeds.feed import Feed, FeedDown
from rookery.data.feeds.fetch import Download, bars_of, download_of, opened_feed, time_name
from rookery.data.opened_data import imported_again, is_import
from rookery.data.storage import data_files, folder_lock, read, write
from rookery.data.synth import SYNTHETIC
from rookery.errors import DataError

COMPARED_BARS = 100  # stored bars that are compared with the feed's
CLOCK_CHANGE = 3600  # the end of a day by which days are stored may be this much later than the feed's


@dataclass(frozen=True)
class Updated:
    """What happened to one symbol of a file.

    Attributes:
        added: Number of new bars.
        last: When the newest bar is complete.
        revised: Number of stored bars that the source has with other values now, or had not before.
        replaced: Whether these were taken from the source.
        problem: Why the file was not updated; then it has no symbol here.
    """

    path: Path
    symbol: str
    added: int
    last: int
    revised: int
    replaced: bool
    problem: str = ""


class _Sources:
    """What is in use: a feed is opened once, and a file is read once, whatever the number of symbols."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._feeds: dict[str, Feed] = {}
        self._imported: dict[str, Dataset] = {}

    def feed(self, wanted: Download) -> Feed:
        if wanted.source not in self._feeds:
            self._feeds[wanted.source] = self._stack.enter_context(opened_feed(wanted.source))
        return self._feeds[wanted.source]

    def imported(self, entry: Mapping[str, Any], data: Dataset) -> Dataset:
        if data.place not in self._imported:
            self._imported[data.place] = imported_again(entry, data)
        return self._imported[data.place]


def update(path: str | Path, revise: bool = False, progress: Progress = no_progress) -> list[Updated]:
    """Fetch what is new, and add it to a file or to all files of a folder. Each file is written at once or not at all.
    A file of a folder that cannot be updated has a `problem`; one that was named raises a DataError.

    Args:
        path: What `rookery data fetch` or `rookery data import` has written.
        revise: Whether all bars are fetched again, and stored ones take the source's values.
    """
    place = Path(os.path.realpath(path))
    if not place.exists():
        raise DataError(f"{printable(path)}: there is no such file or folder")
    with ExitStack() as stack, folder_lock(place if place.is_dir() else place.parent):
        sources = _Sources(stack)
        # A link stays one: the file that it leads to is written.
        files = [Path(os.path.realpath(file)) for file in data_files(place)]
        if len(files) == 1:
            return _update_file(files[0], sources, revise, progress)
        return [one for file in files for one in _updated_or_not(file, sources, revise, progress)]


def _updated_or_not(file: Path, sources: _Sources, revise: bool, progress: Progress) -> list[Updated]:
    """A symbol that is no longer traded should not keep others from being updated."""
    try:
        return _update_file(file, sources, revise, progress)
    except FeedDown:
        raise
    except DataError as error:
        text = str(error)
        return [Updated(file, "", 0, 0, 0, False, text if str(file) in text else f"{printable(file)}: {text}")]


def _update_file(file: Path, sources: _Sources, revise: bool, progress: Progress) -> list[Updated]:
    data = read(file)
    results = [_update_symbol(data, bars, sources, revise, progress) for bars in data.bars]
    changed = [(revise and len(result.revised) + len(result.filled) > 0) or result.added > 0 for result in results]
    if any(changed):
        names = dict.fromkeys(str(old["source"]) for old in data.history if "symbols" in old or is_import(old))
        entry = {
            "command": "update" + " --revise" * revise,
            "source": ",".join(names),
            "at": time_name(int(time.time())),
        }
        # With one entry for the last update: a timer would make one every few minutes.
        kept = [old for old in data.history if not str(old.get("command")).startswith("update")]
        write(replace(data, bars=tuple(result.bars for result in results), history=(*kept, entry)), file)
    return [_report(file, result, revise) for result in results]


def _update_symbol(data: Dataset, stored: Bars, sources: _Sources, revise: bool, progress: Progress) -> _Joined:
    for entry in reversed(data.history):
        wanted = download_of([entry], stored.symbol)
        if wanted is not None:
            return _from_feed(data, stored, wanted, sources.feed(wanted), revise, progress)
        if is_import(entry):
            result = joined(stored, sources.imported(entry, data)[stored.symbol], data, revise)
            _mention(data, result, revise)
            return result
    if any(entry.get("source") == SYNTHETIC for entry in data.history):
        say(f"{data.place}: its bars are synthetic, and there are no newer ones")
        return _Joined(stored, 0, np.empty(0, np.int64), np.empty(0, np.int64))
    raise DataError(
        f"{printable(data.place)}: its history names no source that has newer bars of {stored.symbol}: files from "
        "`rookery data fetch` and `rookery data import` can be updated"
    )


def _from_feed(data: Dataset, stored: Bars, wanted: Download, feed: Feed, revise: bool, progress: Progress) -> _Joined:
    if wanted.timeframe != data.timeframe:
        raise DataError(
            f"{printable(data.place)}: its bars of {timeframe_name(data.timeframe)} were made from downloaded bars of "
            f"{timeframe_name(wanted.timeframe)}: update those, and make this file again"
        )
    feed.check(wanted.series())
    result = joined(stored, _newer(feed, wanted, stored, revise, progress), data, revise)
    _mention(data, result, revise)
    if wanted.adjustment != "raw" and result.rescaled and not revise:
        raise DataError(
            f"{printable(data.place)}: adjusted prices of {stored.symbol} have changed, as after a split or dividend, "
            "and new bars do not fit the stored ones: `rookery data update --revise` fetches all of them again"
        )
    return result


def _newer(feed: Feed, wanted: Download, stored: Bars, revise: bool, progress: Progress) -> Bars:
    """The bars since the last stored one, and some before it, to compare."""
    (series,) = wanted.series()
    rows = len(stored) if revise else min(COMPARED_BARS, len(stored))
    start, last = int(stored.times[-rows]) - wanted.timeframe - CLOCK_CHANGE, int(stored.times[-1])
    found = bars_of(feed, wanted, series, start, None, fresh_until=last, progress=progress)
    return found.rows(found.times >= stored.times[-rows])


def _mention(data: Dataset, result: _Joined, revise: bool) -> None:
    """Say what differs from what is stored."""
    symbol, place = result.bars.symbol, data.place
    taken = "taken from the source" if revise else "kept as they are; --revise takes the source's"
    if len(result.revised):
        first = time_name(int(result.revised[0]))
        say(f"{place}: {len(result.revised)} stored bars of {symbol} have other values in the source now (the first is "
            f"of {first}): {taken}")  # fmt: skip
    if len(result.filled):
        first = time_name(int(result.filled[0]))
        also = "added" if revise else "omitted; --revise adds them"
        say(f"{place}: {len(result.filled)} bars of {symbol} were missing and are in the source now (the first is of "
            f"{first}): {also}")  # fmt: skip
    if result.recomputed:
        say(f"{place}: {', '.join(result.recomputed)} of {symbol} would have other values in stored bars if computed "
            "now: stored values are kept, new bars have the new ones")  # fmt: skip


def _report(file: Path, result: _Joined, revise: bool) -> Updated:
    last = int(result.bars.times[-1])
    return Updated(file, result.bars.symbol, result.added, last, len(result.revised) + len(result.filled), revise)


@dataclass(frozen=True)
class _Joined:
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


def joined(stored: Bars, found: Bars, data: Dataset, revise: bool) -> _Joined:
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
    return _Joined(bars, int(newer.sum()), found.times[differs], found.times[between], rescaled, recomputed)


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
