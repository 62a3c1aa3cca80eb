"""rookery's files of bars: Parquet in long format, with a schema, a hash and a history, read and written exactly."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.data.bar_files import FORMAT, METADATA, check_readable, footer, read_frame
from rookery.data.calendars import timeframe_name
from rookery.data.dataset import BAR_COLUMNS, Bars, Dataset, frozen
from rookery.errors import DataError
from rookery.extras import load_polars
from rookery.files import beside, named, open_folder, open_plain, sync_folder, try_lock

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.05


def read(path: str | os.PathLike[str], symbols: Sequence[str] | None = None) -> Dataset:
    """The bars in a file that `write` made, or in a folder of such files.

    Args:
        path: The file or folder.
        symbols: Only these, in this order.
    """
    files = data_files(Path(path).expanduser())
    merged = merge([_read_file(file) for file in files], str(path)) if len(files) != 1 else _read_file(files[0])
    return merged if symbols is None else merged.select(symbols)


def write(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a file, atomically. Missing folders are made."""
    polars, place = load_polars(), Path(path).expanduser()
    if not dataset.bars or min(map(len, dataset.bars)) == 0:
        raise DataError(f"{printable(path)}: not written, because there are no bars")
    ordered = _in_common_order(dataset)
    facts = {
        "format": FORMAT, "timeframe": timeframe_name(ordered.timeframe), "calendar": ordered.calendar,
        "one_price": ordered.one_price, "hash": ordered.hash, "history": list(ordered.history),
    }  # fmt: skip
    frame = polars.concat([_frame(polars, bars) for bars in ordered.bars], how="diagonal")
    place.parent.mkdir(parents=True, exist_ok=True)
    with beside(place) as unfinished, named(place):
        frame.write_parquet(unfinished, metadata={METADATA: json.dumps(facts)})
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
    sync_folder(place.parent)


def merge(parts: Sequence[Dataset], place: str) -> Dataset:
    """One dataset from several with different symbols."""
    first = parts[0]
    home: dict[str, str] = {}
    for part in parts:
        for what, mine, its in (
            ("timeframe", timeframe_name(part.timeframe), timeframe_name(first.timeframe)),
            ("calendar", part.calendar, first.calendar),
        ):
            if mine != its:
                raise DataError(
                    f"{printable(part.place)}: its {what} is {mine}, but that of {printable(first.place)} is {its}: "
                    "keep them in different folders"
                )
        for symbol in part.symbols:
            if symbol in home:
                raise DataError(
                    f"{printable(part.place)}: the symbol {symbol!r} is also in {printable(home[symbol])}: remove one"
                )
            home[symbol] = part.place
    history = [entry for part in parts for entry in part.history]
    bars = tuple(bars for part in parts for bars in part.bars)
    one_price = any(part.one_price for part in parts)
    return Dataset(bars, first.timeframe, first.calendar, one_price, tuple(history), place)


def data_files(path: Path) -> list[Path]:
    """The file itself, or rookery's files in a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.glob("*.parquet")) if not file.name.startswith(".")]
    if not files:
        raise DataError(f"{printable(path)}: this folder has no .parquet file; `rookery data import` makes them")
    return files


def fingerprint(path: str | os.PathLike[str]) -> str:
    """A hash that changes when a file or folder of bars is written again: of footers, sizes and times of change. It
    does not read the bars."""
    digest = hashlib.sha256()
    for file in _all_files(Path(path).expanduser()):
        check_readable(file)
        try:
            facts = file.stat()
            digest.update(repr((file.name, facts.st_size, facts.st_mtime_ns)).encode() + footer(file))
        except OSError as error:
            raise DataError(f"{printable(file)}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def _all_files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in sorted(path.iterdir()) if file.is_file() and not file.name.startswith("."))
    else:
        yield path


def _frame(polars: Any, bars: Bars) -> Any:
    times = polars.Series("time", bars.times * 1000, dtype=polars.Int64).cast(polars.Datetime("ms", "UTC"))
    symbols = polars.Series("symbol", [bars.symbol]).new_from_index(0, len(bars))
    return polars.DataFrame([symbols, times, *(polars.Series(name, values) for name, values in bars.columns.items())])


def _in_common_order(dataset: Dataset) -> Dataset:
    """The same columns in the same order for all symbols, as they will be read."""
    names = dict.fromkeys([*BAR_COLUMNS, *(name for bars in dataset.bars for name in bars.columns)])
    ordered = []
    for bars in dataset.bars:
        columns = {name: np.asarray(bars.columns[name], np.float64) for name in names if name in bars.columns}
        ordered.append(Bars(bars.symbol, np.asarray(bars.times, np.int64), columns))
    return Dataset(tuple(ordered), dataset.timeframe, dataset.calendar, dataset.one_price, dataset.history)


def _read_file(path: Path) -> Dataset:
    frame, about, wanted_hash = read_frame(path)
    bars = []
    for part in frame.partition_by("symbol", maintain_order=True):
        times = part["time"].dt.epoch("s").to_numpy()
        known = [name for name in part.columns[2:] if part[name].null_count() < len(part)]
        columns = {name: frozen(part[name].fill_null(float("nan")).to_numpy()) for name in known}
        bars.append(Bars(str(part["symbol"][0]), frozen(times), columns))
    data = replace(about, bars=tuple(bars))
    if data.hash != wanted_hash:
        raise DataError(
            f"{printable(path)}: the bars are not those that were written, because their hash differs: the file was "
            "changed or damaged; make it again, or import the changed bars with `rookery data import`"
        )
    return data


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Wait until no other process holds the folder, and hold it within. The folder itself is locked, so that no file is
    left behind (on Windows, a file in it); the lock ends with the process."""
    own = open_folder(folder.resolve())
    fd = open_plain(folder / ".lock", os.O_RDWR | os.O_CREAT) if own is None else own
    try:
        _take(fd, folder, time.monotonic() + WAIT_SECONDS)
        yield
    finally:
        os.close(fd)


def _take(fd: int, folder: Path, deadline: float) -> None:
    waiting = False
    while True:
        try:
            return try_lock(fd)
        except BlockingIOError:
            pass
        except OSError as error:  # some network file systems
            return say(f"{folder} cannot be locked ({error.strerror}): make sure that no second process writes to it")
        if time.monotonic() > deadline:
            raise DataError(f"{printable(folder)}: another process is writing bars there: try again when it has ended")
        if not waiting:
            say(f"{folder}: waiting for another process that is writing bars there")
        waiting = True
        time.sleep(PAUSE_SECONDS)
