"""Opens bars, whatever they are in: files, folders, arrays, tables of pandas or polars; and makes coarser ones."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.data import storage
from rookery.data.bar_files import (
    PACKED_NAMES,
    PICKLE_NAMES,
    TEXT_NAMES,
    check_readable,
    is_ours,
    kind_of,
    pickle_message,
    read_parquet,
)
from rookery.data.calendars import DAY, WEEK, closures, timeframe_name, timeframe_seconds
from rookery.data.checks import refuse_bad
from rookery.data.dataset import Bars, Dataset
from rookery.data.importing.arrays import bars_of_arrays, find_array, is_arrays, read_arrays
from rookery.data.importing.sources import ImportOptions, SourceTable, find_columns
from rookery.data.importing.table_bars import bars_of_table, finished
from rookery.data.importing.tables import is_frame, read_text, table_of
from rookery.errors import DataError, MissingExtra, OptionError

READ = (*TEXT_NAMES, *PACKED_NAMES, ".parquet", ".pq", ".npz")
TIMEFRAME_ENDING = re.compile(r"[ _.-](?:\d+(?:s|m|min|h|d|w)|[MHDW]\d+)$", re.IGNORECASE)
REDUCED = {"high": np.maximum, "low": np.minimum, "volume": np.add, "funding": np.add}  # the others: first or last
MONDAY = 4 * DAY  # 1970 began on a Thursday; weeks begin on Mondays
NAME = "gym-anytrading"  # as the option `data` of the forex world
FILE = "datasets/data/FOREX_EURUSD_1H_ASK.csv"
OPTIONS = {field.name: field.default for field in fields(ImportOptions) if field.name != "notes"}


def open_data(
    data: Any,
    symbols: Sequence[str] | None = None,
    timeframe: str | int | None = None,
    calendar: str | None = None,
    timezone: str | None = None,
    checked: bool = True,
    **more: Any,
) -> Dataset:
    """Bars from wherever they are, checked.

    >>> rows = {"time": [1_700_000_000, 1_700_000_060], "close": [1.5, 1.6]}
    >>> data = open_data({"BTC": rows})
    >>> data.symbols, data.timeframe, data.one_price
    (('BTC',), 60, True)

    Args:
        data: The path of a file or folder (rookery's Parquet files; CSV, Parquet or arrays of others), a `Dataset`, a
            dict with price_array, time_array and optionally tech_array, a dict of tables by symbol, or one table
            (pandas or polars).
        symbols: Only these, in this order; for arrays, the names of their columns.
        timeframe: Finer bars are resampled to this one.
        calendar: When the market is open, such as "forex", instead of what the file says, or "24/7".
        timezone: Of times that name no zone. Without it, they are rejected.
        checked: Whether bad bars are rejected; rookery's own files are checked here, others always.
        more: Other options of `ImportOptions`, such as `time_is="end"`.
    """
    options = ImportOptions(symbols, timeframe, calendar, timezone, **more)
    found = _opened(data, options)
    if symbols is not None and found.symbols != tuple(symbols):
        found = found.select(symbols)
    if calendar is not None and found.calendar != calendar:
        found = replace(found, calendar=calendar)
    if timeframe is not None:
        found = resample(found, timeframe)
    if checked:
        refuse_bad(found)
    if "notes" not in more:
        for note in options.notes:
            _say_once(note)
    return found


@cache
def _say_once(note: str) -> None:
    """Each env and each trial may open the same data."""
    say(note)


def _opened(data: Any, options: ImportOptions) -> Dataset:
    if isinstance(data, Dataset):
        return data
    if isinstance(data, (str, os.PathLike)):
        return _read_sources([Path(data).expanduser()], options)
    if isinstance(data, Mapping) and not data:
        raise DataError("data: the dict is empty: give tables by symbol, or price_array and time_array")
    if isinstance(data, Mapping) and is_arrays(data):
        return finished(bars_of_arrays(data, "the arrays", options), options, "arrays")
    if isinstance(data, Mapping) and not _is_table(data):
        tables = [table_of(frame, str(symbol), "the tables") for symbol, frame in data.items()]
        return finished([bars for table in tables for bars in bars_of_table(table, options)], options, "tables")
    if is_frame(data) or isinstance(data, Mapping):
        name = options.symbols[0] if options.symbols and len(options.symbols) == 1 else "ASSET1"
        return finished(bars_of_table(table_of(data, name, "the table"), options), options, "table")
    if isinstance(data, Sequence) and data and all(isinstance(path, (str, os.PathLike)) for path in data):
        return _read_sources([Path(path).expanduser() for path in data], options)
    raise DataError(
        f"data should be the path of a file or folder, a dict of tables or arrays, or a table, not "
        f"{type(data).__name__}"
    )


def _is_table(data: Mapping[Any, Any]) -> bool:
    """Whether a dict contains columns: times and prices."""
    found = find_columns(map(str, data))
    return "time" in found and "close" in found


def _read_sources(paths: Sequence[Path], options: ImportOptions) -> Dataset:
    """The bars of several files and folders, one or more symbols each."""
    files = [file for path in paths for file in _files(path)]
    wanted = set(options.symbols or ())
    if wanted and wanted <= {symbol_of(file) for file in files}:
        files = [file for file in files if symbol_of(file) in wanted]
    parts = [_read(file, options) for file in files]
    place = str(paths[0]) if len(paths) == 1 else ", ".join(map(str, paths))
    return parts[0] if len(parts) == 1 else storage.merge(parts, place)


def symbol_of(path: Path) -> str:
    """
    >>> symbol_of(Path("data/EURUSD_1h.csv")), symbol_of(Path("BTC-USD.parquet")), symbol_of(Path("ETH.csv.gz"))
    ('EURUSD', 'BTC-USD', 'ETH')
    """
    if path.suffix.lower() in PACKED_NAMES:
        path = path.with_suffix("") if Path(path.stem).suffix.lower() in TEXT_NAMES else path
    return TIMEFRAME_ENDING.sub("", path.stem) or path.stem


def _files(path: Path) -> list[Path]:
    """The files to read; a folder of arrays is one source."""
    if not path.is_dir():
        check_readable(path)
        return [path]
    inside = [file for file in sorted(path.iterdir()) if not file.name.startswith(".")]
    files = [file for file in inside if file.suffix.lower() in READ]
    if files:
        return files
    if find_array("price_array", [file.stem for file in inside if file.suffix.lower() == ".npy"]):
        return [path]
    for file in inside:
        if file.suffix.lower() in PICKLE_NAMES:
            raise DataError(pickle_message(file))
    folders = [file.name for file in inside if file.is_dir()]
    more = f"; it has the folders {', '.join(folders[:5])}: name one" if folders else ""
    raise DataError(
        f"{printable(path)}: the folder has no .csv, .parquet, .npz or price_array.npy file{printable(more)}"
    )


def _read(path: Path, options: ImportOptions) -> Dataset:
    """One file, or a folder of arrays."""
    kind = "npy" if path.is_dir() else kind_of(path)
    if kind == "parquet" and is_ours(path):
        return storage.read(path)
    if kind in ("npy", "npz"):
        found = bars_of_arrays(read_arrays(path), str(path), options)
    elif kind == "parquet":
        frame = read_parquet(path)
        found = bars_of_table(SourceTable(str(path), symbol_of(path), frame, np.arange(len(frame))), options)
    else:
        table, options = read_text(path, symbol_of(path), options)
        found = bars_of_table(table, options)
    return finished(found, options, path.name)


def resample(dataset: Dataset, timeframe: str | int) -> Dataset:
    """Bars of a coarser timeframe, which begin at multiples of it in UTC, weeks on Mondays.

    A bar is kept only if the bars that it is made of are there from its beginning to its end: the first and the last
    one are often dropped. One in the middle is dropped if more than half of its bars are missing while the market is
    open; nothing is filled. Features take their last value, "funding" its sum.
    """
    coarse, fine = timeframe_seconds(timeframe), dataset.timeframe
    if coarse == fine:
        return dataset
    if coarse < fine or coarse % fine:
        raise DataError(
            f"{dataset.place or 'the data'}: bars of {timeframe_name(fine)} cannot become bars of "
            f"{timeframe_name(coarse)}: give a multiple of {timeframe_name(fine)}"
        )
    bars = tuple(_resampled(bars, fine, coarse, dataset.calendar) for bars in dataset.bars)
    for made in bars:
        if len(made) == 0:
            raise DataError(
                f"{dataset.place or 'the data'}: {made.symbol}: there are too few bars for one of "
                f"{timeframe_name(coarse)}"
            )
    entry = {"command": f"resample --timeframe {timeframe_name(coarse)}", "source": timeframe_name(fine)}
    return replace(dataset, bars=bars, timeframe=coarse, history=(*dataset.history, entry))


def _resampled(bars: Bars, fine: int, coarse: int, calendar: str) -> Bars:
    offset = MONDAY % coarse if coarse % WEEK == 0 else 0
    ends = -(-(bars.times - offset) // coarse) * coarse + offset  # of the bucket that each bar falls into
    first = np.flatnonzero(np.diff(ends, prepend=ends[:1] - 1)) if len(ends) else np.empty(0, np.int64)
    last = np.append(first[1:] - 1, len(ends) - 1)[: len(first)]
    columns = {name: _reduced(name, values, first, last) for name, values in bars.columns.items()} if len(first) else {}
    made = Bars(bars.symbol, ends[first], columns or {name: values[:0] for name, values in bars.columns.items()})
    keep = _complete(bars.times, ends[first], last - first + 1, fine, coarse, calendar)
    return made.rows(keep)


def _reduced(name: str, values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    if name in REDUCED:
        return REDUCED[name].reduceat(values, first)
    return values[first if name == "open" else last]


def _complete(
    times: np.ndarray, ends: np.ndarray, counts: np.ndarray, fine: int, coarse: int, calendar: str
) -> np.ndarray:
    """Which buckets have enough bars, and begin and end within the data."""
    if len(ends) == 0:
        return np.zeros(0, bool)
    whole = (ends <= times[-1]) & (ends - coarse >= times[0] - fine)
    starts = (ends - coarse)[:, None] + fine * np.arange(coarse // fine)
    closed = closures(calendar, int(times[0]), int(times[-1]))
    expected = np.full(len(ends), coarse // fine)
    if len(closed):
        nearest = np.maximum(np.searchsorted(closed[:, 0], starts, side="right") - 1, 0)
        shut = (closed[nearest, 0] <= starts) & (starts + fine <= closed[nearest, 1])
        expected = np.maximum((~shut).sum(axis=1), 1)
    return whole & (2 * counts >= expected)


def anytrading_file() -> Path:
    """Where the file is, without an import of the package."""
    spec = find_spec("gym_anytrading")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(f"the bars of {NAME} come with that package, which is not installed: pip install {NAME}")
    return Path(spec.submodule_search_locations[0]) / FILE


def anytrading_bars() -> Dataset:
    """The bars. The file names no zone and has the day first; its own loader reads it so."""
    found = open_data(anytrading_file(), timezone="UTC", calendar="forex", day_first=True)
    return replace(found, bars=(replace(found.bars[0], symbol="EURUSD"),), place=f"{NAME}'s EURUSD")


def import_entry(sources: Sequence[str], out: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The entry of the history for an import of these files with these options; None if the result replaces its source.

    Paths are relative to the folder of the result, so that both can be moved together.
    """
    target, files = Path(os.path.realpath(out)), [Path(os.path.realpath(source)) for source in sources]
    if target in files:
        return None
    return {
        "command": f"import {' '.join(sources)}", "source": "files",
        "paths": [os.path.relpath(file, target.parent) for file in files],
        "options": {name: options[name] for name, usual in OPTIONS.items() if options.get(name, usual) != usual},
    }  # fmt: skip


def is_import(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a history is one of these."""
    paths = entry.get("paths")
    return isinstance(paths, list) and bool(paths) and isinstance(entry.get("options"), dict)


def imported_again(entry: Mapping[str, Any], data: Dataset) -> Dataset:
    """The bars that the files have now."""
    folder = Path(data.place).parent
    paths = [os.path.normpath(folder / str(path)) for path in entry["paths"]]
    options = {name: value for name, value in entry["options"].items() if name in OPTIONS}
    try:
        found = open_data(paths if len(paths) > 1 else paths[0], **options)
    except (DataError, OptionError) as error:
        raise DataError(f"{printable(data.place)}: what it was imported from cannot be read again: {error}") from None
    except TypeError:
        raise DataError(f"{printable(data.place)}: its history has unknown options: import it again") from None
    if (found.timeframe, found.calendar) != (data.timeframe, data.calendar):
        raise DataError(
            f"{printable(data.place)}: its bars of {timeframe_name(data.timeframe)}, calendar {data.calendar}, are "
            f"bars of {timeframe_name(found.timeframe)}, calendar {found.calendar}, in its source: import it again"
        )
    return found
