"""Arrays and records for plain Python: every number that is read from them is a Python number."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

READ_ONLY = "tables, parameters and constants are read-only"


class PlainRecord:
    """A NumPy record whose fields are attributes."""

    __slots__ = ("_fields",)

    def __init__(self, fields: np.void) -> None:
        object.__setattr__(self, "_fields", fields)

    def __reduce__(self) -> Any:
        return PlainRecord, (self._fields.copy(),)  # a pickled record no longer shares the env's memory

    def __getattr__(self, name: str) -> Any:
        return _python(self._fields[self._known(name)])

    def __setattr__(self, name: str, value: Any) -> None:
        _store(self._fields, self._known(name), value)

    def _known(self, name: str) -> str:
        if name not in (self._fields.dtype.names or ()):
            raise AttributeError(f"there is no field {name!r}; the fields are {', '.join(self._fields.dtype.names)}")
        return name

    def __repr__(self) -> str:
        return f"PlainRecord({', '.join(f'{name}={self._fields[name]}' for name in self._fields.dtype.names)})"


class PlainRows:
    """An array whose elements are read as Python numbers, records, or rows to be indexed further."""

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
        _store(self.array, at, value._fields if isinstance(value, PlainRecord) else value)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "array"), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype) if copy else np.asarray(self.array, dtype)


def _python(value: Any) -> Any:
    """A number as a Python number; an array as one that returns Python numbers."""
    if not isinstance(value, np.ndarray) or not value.shape:
        return value.item()
    if value.ndim == 1 and value.dtype.char in "?fd":  # other types: a memoryview accepts less than compiled code does
        return PlainVector(value)
    return PlainRows(value)


class PlainVector:
    """A one-dimensional array behind a memoryview, which is twice as fast and returns Python numbers."""

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
            part = self._numbers[at]
            return PlainVector(np.asarray(part)) if isinstance(at, slice) else part
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


def _store(into: Any, at: Any, value: Any) -> None:
    """Store a number. One that does not fit its type raises here; compiled code would silently wrap it."""
    try:
        into[at] = value
    except OverflowError as error:
        raise ValueError(str(error)) from None
    except ValueError:
        if into.flags.writeable:
            raise
        raise TypeError(READ_ONLY) from None
    if type(value) is float and _dry_run.truncations is not None:
        _note_truncation(into, at, value)


# --- what integers lose -----------------------------------------------------------------------------------------------


class _DryRun(threading.local):
    """What this thread has found; others may step plain worlds at the same time."""

    truncations: list[str] | None = None


_dry_run = _DryRun()


@contextmanager
def note_truncations() -> Iterator[list[str]]:
    """In the meantime, list each float that loses its fraction in an integer field, with the line that stores it."""
    noted: list[str] = []
    _dry_run.truncations = noted
    try:
        yield noted
    finally:
        _dry_run.truncations = None


def _note_truncation(into: Any, at: Any, value: float) -> None:
    assert _dry_run.truncations is not None
    if (into.dtype[at] if isinstance(at, str) else into.dtype).base.kind not in "iu" or np.all(value == into[at]):
        return
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    field = f"the integer field {at!r}" if isinstance(at, str) else "an array of integers"
    _dry_run.truncations.append(
        f"{value} becomes {int(value)} in {field}; write int(...) or round(...), or declare the field as 'f8'\n"
        f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}'
    )
