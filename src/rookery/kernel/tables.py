"""Tables of kernel worlds: large read-only arrays, such as prices, maps or levels."""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.console import printable
from rookery.errors import OptionError, StateError, WorldError
from rookery.kernel.translate import Function, defined, line_of


@dataclass(frozen=True)
class Table:
    """Declares a table whose array is given when the world is made.

    Args:
        shape: Its shape; None means any length.
        dtype: Its NumPy dtype. The array must have this dtype, or be convertible to it without loss.

    Example:
        >>> Table((None, 2), "f4").filled("Market", "prices", [[1, 2], [3, 4], [5, 6]]).shape
        (3, 2)
        >>> Table((None, 2), "f4").filled("Market", "prices", [1, 2])
        Traceback (most recent call last):
        rookery.errors.WorldError: Market: the table 'prices' should have the shape (any, 2), got (2,)
    """

    shape: tuple[int | None, ...]
    dtype: Any = "f8"

    def filled(self, world: str, name: str, numbers: Any) -> np.ndarray:
        """The numbers as an array of this shape and dtype; a WorldError if they do not fit."""
        array, dtype = _array(world, name, numbers), np.dtype(self.dtype)
        casting = "same_kind" if isinstance(numbers, (list, tuple)) else "safe"
        if not np.can_cast(array.dtype, dtype, casting):  # type: ignore[arg-type]
            raise WorldError(
                f"{world}: the table {name!r} should hold {dtype}, got {array.dtype}; if the loss of precision does "
                f"not matter, convert it: {name}.astype({dtype.name!r})"
            )
        fits = len(array.shape) == len(self.shape) and all(
            wanted in (None, found) for wanted, found in zip(self.shape, array.shape, strict=True)
        )
        if not fits:
            raise WorldError(f"{world}: the table {name!r} should have the shape {self._shown()}, got {array.shape}")
        if 0 in array.shape:
            raise WorldError(f"{world}: the table {name!r} is empty; its shape is {array.shape}")
        return np.ascontiguousarray(array, dtype)

    def _shown(self) -> str:
        sizes = ["any" if size is None else str(size) for size in self.shape]
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def fill(world: str, declared: Any, tables: Any, given: dict[str, Any]) -> Any:
    """The tables of a world. Those that are only `declared` are taken from `given`, unless a subclass has already put
    them into `tables`."""
    if not isinstance(declared, Mapping) or not isinstance(tables, Mapping):
        return tables  # not a mapping, which is rejected later
    filled = dict(tables)
    for name, table in {**declared, **tables}.items():
        table = declared[name] if isinstance(declared.get(name), Table) else table
        if isinstance(table, Table):
            numbers = tables.get(name, table)
            if isinstance(numbers, Table):
                numbers = given.pop(name, None)
            if numbers is None:
                raise WorldError(f"{world} needs the table {name!r}, of shape {table._shown()}: {world}({name}=...)")
            filled[name] = table.filled(world, name, numbers)
    return filled


def declarations(declared: Any, tables: Any) -> dict[str, Table]:
    """What other arrays of each table must look like: as it was declared, or like the array that the class has, of any
    length. (Neither is a mapping in a world that is rejected later.)"""
    found: dict[str, Table] = {}
    for name, table in {**declared, **tables}.items() if isinstance(tables, Mapping) else ():
        given = declared[name] if isinstance(declared, Mapping) and name in declared else table
        if isinstance(given, Table):
            found[name] = given
        else:
            array = np.asarray(given)
            found[name] = Table((None, *array.shape[1:]) if array.ndim else (), array.dtype)
    return found


def replaced(world: str, tables: Mapping[str, Any], known: Mapping[str, Table], given: Mapping[str, Any]) -> Any:
    """The tables with some arrays replaced by those in `given`, which must fit their declarations."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"{world} has no table {name!r}{hint} (it has {', '.join(known) or 'none'})")
    return {**tables, **{name: known[name].filled(world, name, numbers) for name, numbers in given.items()}}


def shrinks(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a table has become shorter: then an index into it that a running episode holds may be outside."""
    pairs = ((np.shape(before[name]), np.shape(after[name])) for name in after)
    return any(new < old for old_shape, new_shape in pairs for old, new in zip(old_shape, new_shape, strict=True))


def describe(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Shape, dtype and hash of each table. A saved state holds these to check the tables when it is loaded."""
    arrays = {name: np.ascontiguousarray(table) for name, table in tables.items()}
    return {
        name: {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": _hash(array)}
        for name, array in arrays.items()
    }


def check_same(world: str, saved: Any, here: Mapping[str, Any]) -> None:
    """Refuse a state that was saved with other tables: its envs could read outside of these. A table that an earlier
    version of the world did not have is fine."""
    saved = saved if isinstance(saved, dict) else {}
    if saved == here:
        return
    for name in sorted(saved or here):
        before, now = saved.get(name), here.get(name)
        if before != now:
            raise StateError(
                f"the state of {printable(world)} was saved with other data: its table {name!r} {_described(before)} "
                f"then, and {_described(now)} now; envs can continue only with the same tables (an agent can play on "
                "any)"
            )


def _described(facts: Any) -> str:
    if not isinstance(facts, dict):
        return "did not exist" if facts is None else "is not known"
    shape = "x".join(map(str, facts["shape"])) if isinstance(facts.get("shape"), list) else "?"
    return printable(f"was {shape} {facts.get('dtype')} with the hash {str(facts.get('sha256'))[:12]}")


def _array(world: str, name: str, numbers: Any) -> np.ndarray:
    try:
        return np.asarray(numbers)
    except ValueError as error:
        raise WorldError(f"{world}: the table {name!r} cannot be an array: {error}") from None


def _hash(array: np.ndarray) -> str:
    return hashlib.sha256(array.reshape(-1).view(np.uint8)).hexdigest()  # type: ignore[arg-type]


# --- windows: the part of an observation that is a stretch of a table, such as the last rows of prices ----------------
# The engine copies it. On a GPU neighbouring threads copy neighbouring numbers, which is several times faster than
# `observe`, where each thread writes the whole observation of its env.

BAD_WINDOW = 9  # a value of `faults`, besides those in env_loop.py: a window that is not in its table


@dataclass(frozen=True)
class TableWindow:
    """Says which part of the observation is copied from where. The world's `window_start` says from which element on.

    Args:
        table: The name of a table with one dimension, of the observation's dtype.
        at: The first element of the (flat) observation that is copied.
        size: The number of elements.
    """

    table: str
    at: int
    size: int


def check_window(world: Any) -> None:
    """Refuse a window that does not fit the world."""
    window = world.table_window
    if window is None and world.window_start is None:
        return
    if window is None or world.window_start is None:
        missing = "window_start" if window is not None else "table_window"
        raise WorldError(f"{world.name} has no {missing}: `table_window` and `window_start` belong together")
    if world.num_agents > 1 or not isinstance(world.observation_space, spaces.Box):
        raise WorldError(f"{world.name}.table_window needs one agent, and a Box of observations")
    size = math.prod(world.observation_space.shape)
    if not 0 <= window.at <= window.at + window.size <= size:
        raise WorldError(f"{world.name}.table_window does not fit into the {size} numbers of an observation: {window}")
    table = np.asarray(world.tables.get(window.table))
    if table.ndim != 1 or table.dtype != world.observation_space.dtype or len(table) < window.size:
        raise WorldError(
            f"{world.name}.table_window: {window.table!r} should be a table with one dimension, at least {window.size} "
            f"elements, and the observation's dtype {world.observation_space.dtype}"
        )
    if table.dtype.kind == "f" and not np.isfinite(table).all():  # once, here: the copies are not checked
        raise WorldError(f"{world.name}.table_window: the table {window.table!r} holds NaN or infinity")


def build_window(world: Any, window_start: Function | None, later: bool) -> tuple[Function, Function]:
    """`write(columns, tables, i, state, params)` copies the window of env i; with `later` it only notes its beginning.
    `keep(columns, i)` keeps that note for the last observation of an episode."""
    window = world.table_window
    if window is None or window_start is None:
        return _write_nothing, _keep_nothing

    def keep(columns: Any, i: int) -> None:
        columns.final_starts[i] = columns.window_starts[i]

    copied = [
        f"        for k in range({window.size}):",
        f"            columns.flat[i, {window.at} + k] = tables.{window.table}[start + k]",
    ]
    lines = [
        "    start = window_start(state, params, tables)",
        f"    if 0 <= start <= tables.{window.table}.shape[0] - {window.size}:",
        *(["        columns.window_starts[i] = start"] if later else copied),
        "    else:",
        "        columns.window_starts[i] = 0",
        f"        columns.faults[i] = {BAD_WINDOW}",
        "        columns.failures[i, 1] = start",
        f"        columns.failures[i, 2] = tables.{window.table}.shape[0]",
    ]
    write = defined("write(columns, tables, i, state, params)", lines, window_start=window_start, __name__=__name__)
    return write, keep if later else _keep_nothing


def outside_table(world: Any, failure: Any) -> str:
    """What is wrong with the window of an env with the fault BAD_WINDOW."""
    window, (_, start, length) = world.table_window, map(int, failure)
    return (
        f"window_start returned {start}, and the table {window.table!r} of {length} numbers does not contain "
        f"{window.size} from there on{line_of(world.window_start)}"
    )


def _write_nothing(columns: Any, tables: Any, i: int, state: Any, params: Any) -> None:
    """For a world without a window."""


def _keep_nothing(columns: Any, i: int) -> None:
    """For a world without a window, and where the copy of an observation holds it."""
