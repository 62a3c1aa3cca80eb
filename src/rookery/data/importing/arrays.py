"""Bars from arrays: `price_array` (T, n), `tech_array` (T, n k) and `time_array` (T,)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from rookery.console import printable
from rookery.data.bar_files import kind_of, object_array_message
from rookery.data.dataset import BAR_COLUMNS, PRICES, Bars
from rookery.data.importing.sources import Imported, ImportOptions, SourceTable
from rookery.data.importing.times import seconds
from rookery.errors import DataError
from rookery.extras import load_polars

NAMES = {
    "price_array": ("price_array", "price_ary", "prices", "price", "close"),
    "tech_array": ("tech_array", "tech_ary", "tech", "indicators", "features"),
    "time_array": ("time_array", "time_ary", "times", "time", "timestamps", "timestamp", "dates"),
    "symbols": ("symbols", "tickers", "ticker_list", "tickers_list", "names"),
    "tech_names": ("tech_names", "tech_indicator_list", "columns", "feature_names"),
}


def is_arrays(keys: Any) -> bool:
    """Whether these are names of such arrays."""
    return find_array("price_array", list(map(str, keys))) is not None and any(
        find_array(name, list(map(str, keys))) is not None for name in ("time_array", "tech_array")
    )


def find_array(name: str, keys: list[str]) -> str | None:
    """The key of an array, whatever its case."""
    lower = {key.lower(): key for key in keys}
    return next((lower[synonym] for synonym in NAMES[name] if synonym in lower), None)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays in an .npz file, in a folder of .npy files, or in an .npy file and those beside it."""
    if path.suffix.lower() == ".npz":
        return _read_npz(path)
    folder = path if path.is_dir() else path.parent
    files = {file.stem: file for file in sorted(folder.glob("*.npy"))}
    wanted = [find_array(name, list(files)) for name in NAMES]
    if path.is_file() and path.stem not in wanted:
        raise DataError(
            f"{printable(path)}: name the files price_array.npy, time_array.npy and tech_array.npy, in one folder; "
            "this name says nothing"
        )
    return {name: _load(files[name], name) for name in wanted if name is not None}


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    kind_of(path)
    arrays, name = {}, "the archive"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for name in archive.files:
                arrays[name] = archive[name]
    except Exception as error:  # noqa: BLE001 - a damaged archive raises errors of many kinds
        _refuse_load(path, name, error)
    return arrays


def _load(path: Path, name: str) -> np.ndarray:
    kind_of(path)
    try:
        return np.load(path, allow_pickle=False)
    except Exception as error:  # noqa: BLE001 - a damaged file raises errors of many kinds
        _refuse_load(path, name, error)


def _refuse_load(path: Path, name: str, error: Exception) -> NoReturn:
    if "allow_pickle" in str(error):
        raise DataError(object_array_message(path, name)) from None
    what = printable((str(error).splitlines() or [type(error).__name__])[0])[:160]
    raise DataError(f"{printable(path)}: {name} cannot be read ({what}): it is cut off or damaged; make it again")


def bars_of_arrays(arrays: Mapping[str, Any], place: str, options: ImportOptions) -> list[Imported]:
    """The bars of each column of `price_array`."""
    keys = {name: find_array(name, list(map(str, arrays))) for name in NAMES}
    if keys["price_array"] is None or keys["time_array"] is None:
        missing = "price_array" if keys["price_array"] is None else "time_array"
        raise DataError(
            f"{printable(place)}: there is no {missing}; there is {', '.join(map(str, arrays)) or 'nothing'}"
        )
    prices = _numeric(place, "price_array", arrays[keys["price_array"]])
    prices = prices[:, None] if prices.ndim == 1 else prices
    if prices.ndim != 2 or prices.size == 0:
        raise DataError(f"{printable(place)}: price_array should have the shape (rows, symbols), got {prices.shape}")
    names = _symbols(place, arrays, keys["symbols"], prices.shape[1], options)
    table = _time_table(place, arrays[keys["time_array"]], len(prices))
    times, is_local = seconds(table, "time_array", None, options)
    tech = _tech(place, arrays, keys, prices.shape, options)
    found = []
    for i, name in enumerate(names):
        mine = SourceTable(place, name, table.frame, table.numbers)
        one_price = not all(column in tech[i] for column in PRICES)
        found.append(Imported(Bars(name, times, _columns(prices[:, i], tech[i])), mine, is_local, one_price))
    return found


def _numeric(place: str, name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise DataError(f"{printable(place)}: {name} should hold numbers, got {array.dtype}")
    return array.astype(np.float64)


def _time_table(place: str, values: Any, rows: int) -> SourceTable:
    array = np.asarray(values)
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.shape != (rows,):
        raise DataError(
            f"{printable(place)}: time_array should have the shape ({rows},), as price_array has {rows} rows, got "
            f"{array.shape}"
        )
    if array.dtype.kind == "M":
        array = array.astype("datetime64[us]")
    elif array.dtype.kind == "S":
        array = array.astype(str)
    if array.dtype.kind not in "fiuMU":
        raise DataError(f"{printable(place)}: time_array should hold seconds since 1970 or dates, got {array.dtype}")
    content = array.tolist() if array.dtype.kind == "U" else array
    return SourceTable(place, "all symbols", load_polars().DataFrame({"time_array": content}), np.arange(rows))


def _symbols(place: str, arrays: Mapping[str, Any], key: str | None, count: int, options: ImportOptions) -> list[str]:
    """From the arrays, or as given, or numbered."""
    if key is not None:
        names = [str(name) for name in np.asarray(arrays[key]).reshape(-1)]
    elif options.symbols is not None:
        names = list(options.symbols)
    else:
        options.note("the arrays name no symbols; --symbols gives them names")
        names = [f"ASSET{number}" for number in range(1, count + 1)]
    if len(names) != count:
        raise DataError(f"{printable(place)}: price_array has {count} columns, but there are {len(names)} symbols")
    return names


def _tech(
    place: str, arrays: Mapping[str, Any], keys: dict[str, str | None], shape: tuple[int, ...], options: ImportOptions
) -> list[dict[str, np.ndarray]]:
    """The features of each symbol: `tech_array` has all those of the first symbol, then those of the second."""
    rows, count = shape
    if keys["tech_array"] is None:
        return [{} for _ in range(count)]
    tech = _numeric(place, "tech_array", arrays[keys["tech_array"]])
    flat = tech.reshape(len(tech), -1) if tech.ndim in (2, 3) else tech
    if flat.ndim != 2 or len(flat) != rows or flat.shape[1] == 0 or flat.shape[1] % count:
        raise DataError(
            f"{printable(place)}: tech_array should have the shape ({rows}, {count} times the number of columns per "
            f"symbol), as price_array has {shape}, got {tech.shape}"
        )
    per_symbol = flat.shape[1] // count
    names = options.tech_names
    if names is None and keys["tech_names"] is not None:
        names = [str(name) for name in np.asarray(arrays[keys["tech_names"]]).reshape(-1)]
    names = [f"tech_{number}" for number in range(per_symbol)] if names is None else names
    if len(names) != per_symbol:
        raise DataError(
            f"{printable(place)}: tech_array has {per_symbol} columns per symbol, but {len(names)} names are given"
        )
    return [
        {name: np.ascontiguousarray(flat[:, i * per_symbol + j]) for j, name in enumerate(names)} for i in range(count)
    ]


def _columns(price: np.ndarray, tech: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One price per row, unless the features include all of open, high, low and close."""
    price = np.ascontiguousarray(price)
    own = (
        {name: tech[name] for name in PRICES} if all(name in tech for name in PRICES) else dict.fromkeys(PRICES, price)
    )
    volume = tech.get("volume", np.zeros(len(price)))
    return {**own, "volume": volume, **{name: values for name, values in tech.items() if name not in BAR_COLUMNS}}
