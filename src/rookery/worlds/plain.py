"""Kernel worlds as plain Python: slow, and with a breakpoint wherever you like.

Records read as Python numbers, so arithmetic is done in doubles. So it is in compiled code, but for what is made of
single floats alone ("f4" fields, float32 actions).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rookery.worlds.arena import BOOKS, HEADER, Arena, Books
from rookery.worlds.batch_loop import build_loop
from rookery.worlds.kernel import KernelWorld
from rookery.worlds.loop import COLUMNS, Columns


class PlainRecord:
    """One record; its fields are attributes."""

    __slots__ = ("_fields",)

    def __init__(self, fields: np.void) -> None:
        object.__setattr__(self, "_fields", fields)

    def __reduce__(self) -> Any:
        return PlainRecord, (self._fields.copy(),)  # a copy is no longer the env's own

    def __getattr__(self, name: str) -> Any:
        return _python(self._fields[self._known(name)])

    def __setattr__(self, name: str, value: Any) -> None:
        _put(self._fields, self._known(name), value)

    def _known(self, name: str) -> str:
        if name not in (self._fields.dtype.names or ()):
            raise AttributeError(f"there is no field {name!r}; declared are {', '.join(self._fields.dtype.names)}")
        return name

    def __repr__(self) -> str:
        return f"PlainRecord({', '.join(f'{name}={self._fields[name]}' for name in self._fields.dtype.names)})"


class PlainRows:
    """An array whose elements are handed out as Python numbers, records, or rows to be indexed further."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, at: Any) -> Any:
        part = self.array[at]
        if isinstance(part, np.void):
            return PlainRecord(part)
        return PlainRows(part) if isinstance(at, slice) else _python(part)

    def __setitem__(self, at: Any, value: Any) -> None:
        _put(self.array, at, value._fields if isinstance(value, PlainRecord) else value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype) if copy else np.asarray(self.array, dtype)


def _python(value: Any) -> Any:
    """A number as Python's own; an array as one whose elements are."""
    if not isinstance(value, np.ndarray) or not value.shape:
        return value.item()
    if value.ndim == 1 and value.dtype.char in "?fd":  # the quickest; of other types it takes less than compiled code
        return memoryview(value)  # type: ignore[arg-type]
    return PlainRows(value)


def _put(into: Any, at: Any, value: Any) -> None:
    """Store a number. One that is too large for its place is a mistake, which compiled code would not notice."""
    try:
        into[at] = value
    except OverflowError as error:
        raise ValueError(str(error)) from None


def entry_point(world: KernelWorld) -> Any:
    """As `native.entry_point`, but the function takes an arena and its plan."""
    work = build_loop(world)

    def entry(arena: Arena, plan: np.ndarray, what: int, low: int, high: int, slot: int) -> int:
        columns = Columns(*_wrapped(arena, COLUMNS))
        books = Books(*_wrapped(arena, BOOKS))
        tables = arena.tables_type(*map(PlainRows, arena.tables.values()))
        return work(columns, tables, books, what, low, high, slot, plan[: len(HEADER)].tolist())

    return entry


def _wrapped(arena: Arena, names: Iterable[str]) -> list[PlainRows]:
    return [PlainRows(arena.arrays[name]) for name in names]
