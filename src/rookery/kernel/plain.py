"""Kernel worlds as plain Python: slow, and with a breakpoint wherever you like.

Whatever is read is a Python number, so arithmetic is done in doubles, as in compiled code (see numbers.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from types import FunctionType
from typing import Any

import numpy as np

from rookery.kernel.batch_loop import build_loop
from rookery.kernel.env_arrays import BOOKS, HEADER, Books, EnvArrays, read_only
from rookery.kernel.env_loop import COLUMNS, Columns
from rookery.kernel.translate import closed_over, read_names, rebound
from rookery.kernel.world import ARGUMENTS, KernelWorld

NARROW = "?bBhHiIef"  # NumPy's characters for types with less than 64 bits
READ_ONLY = "tables and parameters are read-only"


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

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "array"), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype) if copy else np.asarray(self.array, dtype)


def _python(value: Any) -> Any:
    """A number as Python's own; an array as one whose elements are."""
    if not isinstance(value, np.ndarray) or not value.shape:
        return value.item()
    if value.ndim == 1 and value.dtype.char in "?fd":  # the quickest; of other types it takes less than compiled code
        return PlainVector(value)
    return PlainRows(value)


class PlainVector:
    """An array in one dimension, by way of a memoryview: twice as quick, and gives Python's numbers."""

    __slots__ = ("_numbers",)

    def __init__(self, array: np.ndarray) -> None:
        self._numbers = memoryview(array)  # type: ignore[arg-type]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._numbers.shape or ()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, at: Any) -> Any:
        try:
            return self._numbers[at]
        except IndexError:
            raise self._out_of_bounds(at) from None

    def __setitem__(self, at: Any, value: Any) -> None:
        try:
            self._numbers[at] = value
        except IndexError:
            raise self._out_of_bounds(at) from None
        except TypeError:
            if not self._numbers.readonly:
                raise
            raise TypeError(READ_ONLY) from None

    def _out_of_bounds(self, at: Any) -> IndexError:
        return IndexError(f"index {at} is out of bounds for an array of {len(self)}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._numbers, dtype) if copy else np.asarray(self._numbers, dtype)


def _put(into: Any, at: Any, value: Any) -> None:
    """Store a number. One that is too large for its place is a mistake, which compiled code would not notice."""
    try:
        into[at] = value
    except OverflowError as error:
        raise ValueError(str(error)) from None
    except ValueError:
        if into.flags.writeable:
            raise
        raise TypeError(READ_ONLY) from None


def with_plain_constants(world: KernelWorld) -> KernelWorld:
    """A world whose functions read Python numbers from NumPy constants too, where those would compute otherwise: to
    NumPy, a sum of bytes is a byte, and one of a single and a double a single. The code is the same, so that a
    breakpoint in it stops."""
    plain, done = copy(world), dict[FunctionType, FunctionType]()
    for role in ARGUMENTS:
        function = getattr(world, role, None)
        if isinstance(function, FunctionType):
            setattr(plain, role, _with_plain_constants(function, done))
    return plain


def _with_plain_constants(function: FunctionType, done: dict[FunctionType, FunctionType]) -> FunctionType:
    if function not in done:
        done[function] = function  # also if it calls itself
        names = {
            name: _constant(value, done) for name, value in function.__globals__.items() if name in read_names(function)
        }
        cells = {name: _constant(value, done) for name, value in closed_over(function).items()}
        old = {**function.__globals__, **closed_over(function)}
        if any(value is not old[name] for name, value in (*names.items(), *cells.items())):
            done[function] = rebound(function, {**function.__globals__, **names}, cells)
    return done[function]


def _constant(value: Any, done: dict[FunctionType, FunctionType]) -> Any:
    if isinstance(value, FunctionType):
        return _with_plain_constants(value, done)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.char in NARROW:
        return PlainRows(value) if isinstance(value, np.ndarray) and value.ndim else value.item()
    return value


def entry_point(world: KernelWorld) -> Any:
    """As `native.entry_point`, but the function takes an arena and its plan."""
    work = build_loop(with_plain_constants(world))

    def entry(arena: EnvArrays, plan: np.ndarray, what: int, low: int, high: int, slot: int) -> int:
        columns: Any = Columns(*_wrapped(arena, COLUMNS))
        columns = columns._replace(params=PlainRows(read_only(arena.params)))
        books = Books(*_wrapped(arena, BOOKS))
        tables = arena.tables_type(*map(PlainRows, arena.tables.values()))
        return work(columns, tables, books, what, low, high, slot, plan[: len(HEADER)].tolist())

    return entry


def _wrapped(arena: EnvArrays, names: Iterable[str]) -> list[PlainRows]:
    return [PlainRows(arena.arrays[name]) for name in names]
