"""Writes observations into their columns, and refuses those outside the observation space."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.engine.batch import MOST_FLAGGED, Columns, SpaceLeaf, is_custom, leaves, split
from rookery.engine.loops import COMPILED, inside
from rookery.errors import BadValue, RookeryError, SpaceError
from rookery.kernel.observation_form import can_leave, limits

SPREAD_BYTES = 1 << 16
QUICK = [np.dtype(kind) for kind in ("f4", "f8", "i8")]  # the dtypes that `inside` takes
ADVICE = "fix the space or the env, or accept it with bad_values='allow'"


class ObservationWriter:
    """Writes the observations of envs [low, high). `strict` refuses casts and out-of-space values; "finite" refuses NaN
    and infinity, and discrete values out of range. `own_spaces` are those of each env, where they differ."""

    def __init__(
        self, columns: Columns, low: int, high: int, strict: bool | str, own_spaces: list[Space] | None = None
    ) -> None:
        self.space, self.leaves, self.strict = columns.space, columns.leaves, strict
        self._own = None if own_spaces is None else [leaves(space) for space in own_spaces]
        self.low, self.high = low, high
        self.columns = columns.columns
        # One array view per env and leaf: `row[...] = value` costs 0.09 us, `column[i] = value` 0.16 us.
        self._rows = [
            None if leaf.dtype is None else [column[r : r + 1].reshape(leaf.shape) for r in range(low, high)]
            for leaf, column in zip(self.leaves, self.columns, strict=True)
        ]
        self._bounds = [
            Bounds(each, column[low:high], finite=strict == "finite")
            for each, column in zip(self._leaf_of_each(), self.columns, strict=True)
            if strict and any(Bounds.needed(leaf) for leaf in each)
        ]
        flat = len(self.leaves) == 1 and not self.leaves[0].path and self.leaves[0].dtype is not None
        # The common case of a space that is one array, for the stepping loop to inline.
        self.flat_rows = self._rows[0] if flat else None
        self.flat_shape, self.flat_dtype = (self.leaves[0].shape, self.leaves[0].dtype) if flat else ((), None)
        self._objects: list[tuple[int, int, Any]] = []  # (leaf, row, value) written since last taken
        self._notes: list[tuple[str, str]] = []  # what was accepted and should be said once, since last taken
        self.has_kept = self._noted_cast = False
        self._plain = columns.plain

    def _leaf_of_each(self) -> list[list[SpaceLeaf]]:
        """For each leaf: that of every env, or a single one that all share."""
        if self._own is None:
            return [[leaf] for leaf in self.leaves]
        return [list(each) for each in zip(*self._own, strict=True)]

    def put(self, i: int, observation: Any) -> None:
        """Write the observation of the i-th env here."""
        parts = split(self.space, observation)
        for k, (leaf, value) in enumerate(zip(self.leaves, parts, strict=True)):
            if leaf.dtype is None:
                self._put_object(k, i, leaf, value)
            else:
                self._put_array(k, i, leaf, value)
        if self._plain is not None:
            plain = [k for k, value in enumerate(parts[:MOST_FLAGGED]) if type(value) in (int, float, bool)]
            self._plain[self.low + i] = sum(1 << k for k in plain if self.leaves[k].dtype is not None)

    def _put_array(self, k: int, i: int, leaf: SpaceLeaf, value: Any) -> None:
        try:
            array = np.asarray(value)
        except ValueError:
            raise SpaceError(f"observation{leaf.name} should be {_expected(leaf)}, got a ragged sequence") from None
        if array.shape != leaf.shape:
            raise SpaceError(f"observation{leaf.name} should be {_expected(leaf)}, got shape {array.shape}")
        if array.dtype != leaf.dtype:
            self._check_cast(leaf, array, hasattr(value, "dtype"))
        self._rows[k][i][...] = array  # type: ignore[index]

    def _check_cast(self, leaf: SpaceLeaf, array: np.ndarray, typed: bool) -> None:
        """Python numbers carry no dtype of their own, so they only have to be of the right kind. Floats are cast to
        other floats, as Gymnasium does, and a note says so."""
        assert leaf.dtype is not None
        floats = array.dtype.kind == leaf.dtype.kind == "f"
        rule: Any = "safe" if self.strict is True and typed and not floats else "same_kind"
        if not np.can_cast(array.dtype, leaf.dtype, rule):
            raise SpaceError(
                f"observation{leaf.name} should be {_expected(leaf)}, got dtype {array.dtype}: return "
                f"observation.astype('{leaf.dtype}'), or accept casts with bad_values='allow'"
            )
        if floats and typed and self.strict and not self._noted_cast and array.dtype.itemsize > leaf.dtype.itemsize:
            self._noted_cast = True
            text = f"observation{leaf.name} is {array.dtype}, its space {leaf.dtype}: it is cast in every step"
            self.keep(notes=[("cast", text)])

    def _put_object(self, k: int, i: int, leaf: SpaceLeaf, value: Any) -> None:
        space = leaf.space if self._own is None else self._own[i][k].space
        if self.strict and not is_custom(space) and not space.contains(value):  # nobody knows what theirs checks
            raise SpaceError(f"observation{leaf.name} is not in {space}: got {value!r}")
        value = copy.deepcopy(value)  # an env may fill the same object again
        self.columns[k][self.low + i] = value
        self.keep(objects=[(k, self.low + i, value)])

    def keep(self, objects: Sequence[tuple[int, int, Any]] = (), notes: Sequence[tuple[str, str]] = ()) -> None:
        """Keep what is not an array, for the next report."""
        self._objects += objects
        self._notes += notes
        self.has_kept = bool(self._objects or self._notes)

    def take_kept(self) -> tuple[list[tuple[int, int, Any]], list[tuple[str, str]]]:
        """The objects and notes since they were last taken."""
        kept = self._objects, self._notes
        self._objects, self._notes, self.has_kept = [], [], False
        return kept

    def clean(self) -> bool:
        """Whether all observations are in their space."""
        for bounds in self._bounds:  # noqa: SIM110 - a generator would cost as much again as the check
            if bounds.broken():
                return False
        return True

    def problems(self, wanted: Collection[int]) -> dict[int, RookeryError]:
        """Which of these envs (by position) have an observation outside its space, with an error that says how."""
        found: dict[int, RookeryError] = {}
        for bounds in self._bounds:
            if not bounds.broken():
                continue
            errors = {i: error for i, error in bounds.diagnose().items() if i in wanted}
            for i, error in errors.items():
                if bounds.lenient and isinstance(error, SpaceError):
                    self.keep(notes=[("bounds", f"env {self.low + i}: {error}")])
                else:
                    found.setdefault(i, error)
            if errors:
                bounds.relax()
        return found

    def problem(self, i: int) -> RookeryError | None:
        """The same for a single env."""
        return None if self.clean() else self.problems({i}).get(i)


class Bounds:
    """The limits of one column, of one leaf for all rows or of one for each row. Without compiled code, checking all
    rows of a worker takes two comparisons and a search over bytes, 1 us."""

    def __init__(self, each: Sequence[SpaceLeaf], rows: np.ndarray, finite: bool = False) -> None:
        self.leaf, self.rows = each[0], rows
        # Whether finite numbers outside the space are accepted. The first ones are found, to be noted; later ones not.
        self.lenient = finite and each[0].dtype is not None and each[0].dtype.kind == "f"
        self._set_limits(each, finite=False)

    def relax(self) -> None:
        """After the first value outside the space, look for NaN and infinity only."""
        if self.lenient:
            self.lenient = False
            self._set_limits([self.leaf], finite=True)

    def _set_limits(self, each: Sequence[SpaceLeaf], finite: bool) -> None:
        rows = self.rows
        self.low, self.high = _limits(each[0], finite)
        if len(each) > 1:
            self.low, self.high = (np.stack(sides) for sides in zip(*(_limits(x, finite) for x in each), strict=True))
        if rows.nbytes <= SPREAD_BYTES:  # limits of the full shape compare at 0.4 us; broadcasting takes 1.0
            self.low, self.high = (np.broadcast_to(limit, rows.shape).copy() for limit in (self.low, self.high))
        self._quick = COMPILED and rows.dtype in QUICK and self.low.shape == rows.shape
        self._flags = bytearray(2 * rows.size)
        self._above, self._below = np.frombuffer(self._flags, np.bool_).reshape(2, *rows.shape)

    @staticmethod
    def needed(leaf: SpaceLeaf) -> bool:
        """Not where every value the dtype can hold is allowed, such as 8-bit images."""
        return leaf.dtype is not None and leaf.dtype != np.bool_ and can_leave(leaf.space)

    def broken(self) -> bool:
        if self._quick:
            return not inside(self.rows, self.low, self.high)
        np.greater_equal(self.rows, self.low, out=self._above)
        np.less_equal(self.rows, self.high, out=self._below)
        return 0 in self._flags

    def diagnose(self) -> dict[int, RookeryError]:
        good = (self.rows >= self.low) & (self.rows <= self.high)
        return {i: self._error(i, good[i]) for i in range(len(self.rows)) if not np.all(good[i])}

    def _error(self, i: int, good: np.ndarray) -> RookeryError:
        at = tuple(int(k) for k in np.argwhere(~np.atleast_1d(good))[0]) if self.leaf.shape else ()
        value = self.rows[i][at]
        where = f"observation{self.leaf.name}{list(at) if at else ''}"
        if np.issubdtype(self.leaf.dtype, np.floating) and not np.isfinite(value):
            return BadValue(f"{where} is {value}")
        low, high = (np.broadcast_to(limit, self.rows.shape)[i][at] for limit in (self.low, self.high))
        advice = "it is accepted, and no further ones are reported" if self.lenient else ADVICE
        return SpaceError(f"{where} is {value}, outside its space [{low}, {high}]: {advice}")


def _limits(leaf: SpaceLeaf, finite: bool) -> list[np.ndarray]:
    """The lowest and the highest allowed value. Unbounded floats end at the largest finite one, so that the same
    comparison finds infinities and NaN. With `finite`, all floats end there."""
    return [side.reshape(leaf.shape) for side in limits(leaf.space, finite)]


def _expected(leaf: SpaceLeaf) -> str:
    return f"of shape {leaf.shape} and dtype {leaf.dtype} ({leaf.space})"
