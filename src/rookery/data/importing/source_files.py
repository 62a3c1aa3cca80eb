"""Bars from files and folders that other programs made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rookery.console import printable
from rookery.data import storage
from rookery.data.dataset import Dataset
from rookery.data.importing.arrays import bars_of_arrays, find_array, read_arrays
from rookery.data.importing.file_kinds import PICKLE_NAMES, TEXT_NAMES, kind_of, pickle_message
from rookery.data.importing.finish import finished
from rookery.data.importing.import_options import ImportOptions
from rookery.data.importing.source_table import SourceTable
from rookery.data.importing.table_bars import bars_of_table
from rookery.data.importing.text_tables import read_text
from rookery.data.stored_file import check_readable, is_ours, read_parquet
from rookery.errors import DataError

READ = (*TEXT_NAMES, ".parquet", ".pq", ".npz")
TIMEFRAME_ENDING = re.compile(r"[ _.-](?:\d+(?:s|m|min|h|d|w)|[MHDW]\d+)$", re.IGNORECASE)


def read_sources(paths: Sequence[Path], options: ImportOptions) -> Dataset:
    """The bars of several files and folders, one or more symbols each."""
    files = [file for path in paths for file in _files(path)]
    wanted = set(options.symbols or ())
    if wanted and wanted <= {symbol_of(file) for file in files}:
        files = [file for file in files if symbol_of(file) in wanted]
    parts = [_read(file, options) for file in files]
    place = str(paths[0]) if len(paths) == 1 else ", ".join(map(str, paths))
    data = parts[0] if len(parts) == 1 else storage.merge(parts, place)
    return data if options.symbols is None else data.select(options.symbols)


def symbol_of(path: Path) -> str:
    """
    >>> symbol_of(Path("data/EURUSD_1h.csv")), symbol_of(Path("BTC-USD.parquet"))
    ('EURUSD', 'BTC-USD')
    """
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
        found = bars_of_table(_read_parquet(path), options)
    else:
        found = bars_of_table(read_text(path, symbol_of(path)), options)
    return finished(found, options, path.name)


def _read_parquet(path: Path) -> SourceTable:
    frame = read_parquet(path)
    return SourceTable(str(path), symbol_of(path), frame, np.arange(len(frame)))
