"""Made-up bars in the form that a world takes its own, of which any part of the future can be exchanged by others.

All moves are about equally large, so that what an action earns is never lost among its costs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.data.importing.sources import find_columns
from rookery.data.synth import synthesise
from rookery.errors import OptionError
from rookery.extras import load_polars

MOVE, SPREAD = 0.03, 0.01  # a bar moves by 3 to 4 %
GAP = 0.003  # between a close and the next open
WICK = 0.004  # from open or close to high and low
JUMP = 3.0  # more than prices move in all rows
PRICES = ("open", "high", "low", "close", "adjusted")
Table = Callable[[dict[str, np.ndarray]], Any]  # from columns of numbers to what the world takes


class Future:
    """Bars and other courses that they could have taken. A position is a moment: 2 * row is when the row opens, 2 * row
    + 1 when it is complete."""

    def __init__(self, names: list[str], rows: int, seed: int) -> None:
        self.names, self.rows = names, rows
        self.meanings = {column: meaning for meaning, column in find_columns(names).items() if meaning in PRICES}
        if not self.meanings:
            self.meanings = {names[0]: "close"}
        self._courses = [_course(self.meanings, names, rows, [seed, k]) for k in range(2)]
        close = next((name for name, what in self.meanings.items() if what == "close"), next(iter(self.meanings)))
        self._closes = [course[close] for course in self._courses]
        # What shows only now and then, such as a turn of the prices, may be the same in one of the other courses.
        self.others: tuple[Callable[[int], dict[str, np.ndarray]], ...] = (
            self.changed, self.mirrored, partial(self.scaled, factor=JUMP), partial(self.scaled, factor=1 / JUMP)
        )  # fmt: skip

    @property
    def end(self) -> int:
        """The position after the last."""
        return 2 * self.rows

    def changed(self, position: int) -> dict[str, np.ndarray]:
        """The columns with another course from a position on."""
        before = position // 2 - 1  # the last row that stays whole: the other course continues from its close
        scale = self._closes[0][before] / self._closes[1][before] if before >= 0 else 1.0
        other = {name: self._courses[1][name] * (scale if name in self.meanings else 1.0) for name in self.names}
        return self._joined(other, position)

    def mirrored(self, position: int) -> dict[str, np.ndarray]:
        """The columns with the opposite of each move from a position on."""
        level = self._closes[0][max(position // 2 - 1, 0)]
        opposite = {"high": "low", "low": "high"}
        names = {meaning: name for name, meaning in self.meanings.items()}
        other = dict(self._courses[0])
        for name, meaning in self.meanings.items():
            other[name] = level**2 / self._courses[0][names.get(opposite.get(meaning, meaning), name)]
        return self._joined(other, position)

    def scaled(self, position: int, factor: float) -> dict[str, np.ndarray]:
        """The columns with all prices from a position on multiplied: a gap that nobody could trade."""
        prices = {
            name: values * (factor if name in self.meanings else 1.0) for name, values in self._courses[0].items()
        }
        return self._joined(prices, position)

    def wider(self, position: int, factor: float) -> dict[str, np.ndarray]:
        """The columns with highs further up and lows further down, in rows that are complete at a position or later.
        Opens and closes stay."""
        row, made = position // 2, dict(self._courses[0])
        for name, meaning in self.meanings.items():
            if meaning in ("high", "low"):
                scale = factor if meaning == "high" else 1 / factor
                made[name] = np.concatenate([made[name][:row], made[name][row:] * scale])
        return made

    def _joined(self, other: dict[str, np.ndarray], position: int) -> dict[str, np.ndarray]:
        made = {}
        for name, values in self._courses[0].items():
            row = position // 2 + (position % 2 if self.meanings.get(name) == "open" else 0)
            made[name] = np.concatenate([values[:row], other[name][row:]])
        prices = [made[name] for name in self.meanings]
        for name, meaning in self.meanings.items():
            if meaning in ("high", "low"):  # of the row whose open stays
                made[name] = (np.maximum if meaning == "high" else np.minimum).reduce(prices)
        return made


def _course(meanings: Mapping[str, str], names: list[str], rows: int, seed: list[int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    moves = rng.choice([-1.0, 1.0], rows) * rng.uniform(MOVE, MOVE + SPREAD, rows)
    close = 100 * np.exp(np.cumsum(moves - moves.mean()))
    opened = np.concatenate([[100.0], close[:-1]]) * (1 + rng.uniform(-GAP, GAP, rows))
    wick = 1 + rng.uniform(0, WICK, (2, rows))
    bars = {
        "open": opened, "close": close, "adjusted": close, "high": np.maximum(opened, close) * wick[0],
        "low": np.minimum(opened, close) / wick[1],
    }  # fmt: skip
    others = {name: rng.uniform(0.5, 1.5, rows) * 1000 for name in names if name not in meanings}
    return {name: bars[meanings[name]] if name in meanings else others[name] for name in names}


def given_table(data: Any) -> tuple[list[str], int, Table]:
    """The columns of numbers of a table, its number of rows, and what makes a table like it of other numbers."""
    if isinstance(data, Dataset):
        return _of_dataset(data)
    if isinstance(data, (str, Path)):
        return _of_file(Path(data))
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if isinstance(data, Mapping):
        names = [name for name, values in data.items() if _is_number(name, np.asarray(values))]
        _refuse_empty(names)
        return names, len(data[names[0]]), lambda made: {**data, **made}
    if hasattr(data, "columns") and hasattr(data, "assign"):  # pandas
        names = [name for name in data.columns if _is_number(str(name), np.asarray(data[name]))]
        _refuse_empty(names)
        return names, len(data), lambda made: data.assign(**made)
    if hasattr(data, "with_columns"):  # polars
        names = [name for name in data.columns if _is_number(name, data[name].to_numpy())]
        _refuse_empty(names)
        return names, len(data), lambda made: data.with_columns(**made)
    raise OptionError(f"data should be a table, a dict of columns, an array, or a file, not {type(data).__name__}")


def _is_number(name: str, values: np.ndarray) -> bool:
    """Whether a column holds numbers that may change: not times."""
    return values.dtype.kind in "fiu" and "time" not in find_columns([name])


def _refuse_empty(names: list[Any]) -> None:
    if not names:
        raise OptionError("data: there is no column of numbers")


def _of_array(data: np.ndarray) -> tuple[list[str], int, Table]:
    if data.ndim == 1:
        return ["close"], len(data), lambda made: made["close"]
    usual = ["open", "high", "low", "close", "volume"]
    names = usual if data.shape[1] == len(usual) else [f"price_{k}" for k in range(data.shape[1])]
    return names, len(data), lambda made: np.stack([made[name] for name in names], axis=1)


def _of_dataset(data: Dataset) -> tuple[list[str], int, Table]:
    """All symbols take the same course: which of them is traded does not matter."""
    names = list(data.bars[0].columns)
    rows = min(len(bars) for bars in data.bars)

    def made(columns: dict[str, np.ndarray]) -> Dataset:
        bars = tuple(
            Bars(each.symbol, each.times[:rows], {**columns, "volume": columns["volume"]}) for each in data.bars
        )
        return replace(data, bars=bars)

    return names, rows, made


def _of_file(path: Path) -> tuple[list[str], int, Table]:
    """A file of the same kind, in a folder of its own, with other numbers."""
    polars = load_polars()
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise OptionError(f"data = {path}: give a .csv or .parquet file, or a table")
    frame = polars.read_csv(path) if path.suffix.lower() == ".csv" else polars.read_parquet(path)
    names, rows, table = given_table(frame)
    folder = Path(tempfile.mkdtemp(prefix="rookery-audit-"))

    def made(columns: dict[str, np.ndarray]) -> str:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write = table(columns).write_csv if path.suffix.lower() == ".csv" else table(columns).write_parquet
        write(folder / path.name)
        return str(folder / path.name)

    return names, rows, made


def usual_tables(rows: int) -> list[Any]:
    """Bars in the forms that worlds take most often, to be tried in this order."""
    made = synthesise(1, rows, "1h", seed=1)
    columns = {name: values.copy() for name, values in made.bars[0].columns.items()}
    times = made.bars[0].times.astype("datetime64[s]")
    tables: list[Any] = []
    try:
        import pandas

        index = pandas.DatetimeIndex(times, name="time")
        tables += [
            pandas.DataFrame(columns, index=index),
            pandas.DataFrame({name.capitalize(): values for name, values in columns.items()}, index=index),
        ]
    except ImportError:
        pass
    return [*tables, columns, columns["close"], made]
