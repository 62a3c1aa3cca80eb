"""What a step leaves besides arrays: infos, observations without a fixed size, and what an env raised."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cloudpickle
import numpy as np

from rookery.engine.batch import ALL, INFO_SLOTS, Batch, Columns
from rookery.engine.loops import read_slots
from rookery.errors import EnvError


class Failure:
    """An exception from one env. It survives pickling even when the exception itself does not."""

    def __init__(self, row: int, phase: str, error: BaseException) -> None:
        self.row, self.phase, self.error = row, phase, error
        self.kind, self.message = type(error).__name__, _text(error)
        self.trace = "".join(traceback.format_exception(error))
        self.remote = False

    @property
    def where(self) -> str:
        return f"env {self.row} in {self.phase}()" if self.row >= 0 else f"a worker in {self.phase}()"

    def exception(self) -> BaseException:
        """The original exception, with a note that names the env; an EnvError with its text if it cannot be rebuilt."""
        error = self.error
        if not isinstance(error, Exception):  # could not be rebuilt, or SystemExit and the like
            error = EnvError(f"{self.where} raised {self.kind}: {self.message}")
        error.add_note(f"raised by {self.where}")
        if self.remote:
            error.add_note(f"traceback in the worker:\n{self.trace.rstrip()}")
        try:
            error.env_index, error.env_phase = self.row, self.phase  # type: ignore[attr-defined]
        except AttributeError:
            pass  # an exception class with __slots__
        return error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "error": _pack(self.error), "remote": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.error = _unpack(state["error"])


class Failed(Exception):
    """Carries a Failure to the code that reports it; users never see it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.where)
        self.failure = failure


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a __str__ that fails must not hide the failure itself
        return "<its str() failed>"


def _pack(error: BaseException) -> bytes | None:
    """The exception in the first form that keeps its type and text when pickled and unpickled. By name first, so that
    the parent gets a class that it knows; by value for classes from a script or notebook."""
    for dumps in (pickle.dumps, cloudpickle.dumps):
        for form in (_whole, _in_parts):
            try:
                blob = dumps(form(error, dumps))
            except Exception:  # noqa: BLE001, S112 - any exception class may resist pickling in its own way
                continue
            copy = _unpack(blob)
            if type(copy) is type(error) and _text(copy) == _text(error):
                return blob
    return None


def _whole(error: BaseException, _: Any) -> tuple:
    return (error,)


def _in_parts(error: BaseException, dumps: Any) -> tuple:
    """For classes with a constructor of their own, or attributes that cannot be pickled."""
    args = tuple(item if _can_be_pickled(item, dumps) else repr(item) for item in error.args)
    return type(error), args, {k: v for k, v in error.__dict__.items() if _can_be_pickled(v, dumps)}


def _unpack(blob: bytes | None) -> Any:
    if blob is None:
        return None
    try:
        first, *rest = pickle.loads(blob)  # noqa: S301 - from a live worker of this process
        if not rest:
            return first
        args, attributes = rest
        error = first.__new__(first, *args)  # without __init__, whose signature may be anything
        error.args = args
        error.__dict__.update(attributes)
        return error
    except Exception:  # noqa: BLE001
        return None


def _can_be_pickled(value: Any, dumps: Any) -> bool:
    try:
        pickle.loads(dumps(value))  # noqa: S301
        return True
    except Exception:  # noqa: BLE001
        return False


# --- reports ----------------------------------------------------------------------------------------------------------


# A segment's status after a step: arrays only, also infos in their slots, or also a StepReport.
NOTHING, SLOTS, REPORT = 0, 1, 2


@dataclass
class StepReport:
    """What does not fit in arrays, by row. It is rare, so it may be pickled."""

    infos: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    final_infos: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    objects: list[tuple[int, int, Any]] = field(default_factory=list)
    final_objects: list[tuple[int, int, Any]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  # for the user: what it is about, and a sentence


@dataclass(frozen=True)
class Slot:
    """Where a numeric info key is stored in shared memory: `info_values[index]`, for values of these types."""

    index: int
    key: str
    dtype: np.dtype
    types: tuple[type, ...]

    @cached_property
    def integer(self) -> bool:
        """Integers keep all their bits: they are stored as such in the same eight bytes."""
        return self.dtype.kind in "iu"


# --- infos of many envs as one dict: a column per key and a `_key` mask beside it, as Gymnasium's ---------------------

_NUMBERS = (bool, int, float)


def add_info(infos: dict[str, Any], info: dict[str, Any], at: int, count: int) -> None:
    """Merge one env's info into position `at` of the columns in `infos`."""
    for key, value in info.items():
        column = infos.get(key)
        if isinstance(value, dict) and (column is None or isinstance(column, dict)):
            add_info(infos.setdefault(key, {}), value, at, count)
        else:
            if isinstance(column, dict):  # a dict from one env, something else from another
                column = _as_objects(column, infos[f"_{key}"])
            infos[key] = _place(column, value, at, count)
        mark(infos, key, at, count)


def mark(infos: dict[str, Any], key: str, at: int, count: int) -> None:
    infos.setdefault(f"_{key}", np.zeros(count, np.bool_))[at] = True


def add_final_observations(
    infos: dict[str, Any], finals: Columns, positions: np.ndarray, rows: np.ndarray, known: np.ndarray, count: int
) -> None:
    """Add the last observations of the episodes that ended, which are those of `rows`, at `positions` of the batch.
    `_final_info` marks those that are `known`: of the others nothing is left, not even their length."""
    infos.setdefault("final_info", {})
    infos["final_obs"] = np.full(count, None, dtype=object)
    for at, row in zip(positions.tolist(), rows.tolist(), strict=True):
        infos["final_obs"][at] = finals.row(row)
        mark(infos, "final_obs", at, count)
    infos["_final_info"] = np.zeros(count, np.bool_)
    infos["_final_info"][positions] = known


def _as_objects(nested: dict[str, Any], mask: np.ndarray) -> np.ndarray:
    """Nested columns as one column of dicts."""
    column = np.full(len(mask), None, dtype=object)
    for at in mask.nonzero()[0].tolist():
        column[at] = {k: v[at] for k, v in nested.items() if f"_{k}" in nested and nested[f"_{k}"][at]}
    return column


def _place(column: np.ndarray | None, value: Any, at: int, count: int) -> np.ndarray:
    if column is None:
        column = _new_column(value, count)
    elif not _fits(column, value):
        column = _widen(column, value)
    column[at] = value
    return column


def _new_column(value: Any, count: int) -> np.ndarray:
    if isinstance(value, (*_NUMBERS, np.number, np.bool_)):
        return np.zeros(count, np.asarray(value).dtype)
    if isinstance(value, np.ndarray):
        return np.zeros((count, *value.shape), value.dtype)
    return np.full(count, None, dtype=object)


def _fits(column: np.ndarray, value: Any) -> bool:
    if column.dtype == object and column.ndim == 1:
        return True
    if isinstance(value, dict):
        return False
    array = np.asarray(value)
    return array.shape == column.shape[1:] and np.can_cast(array.dtype, column.dtype)


def _widen(column: np.ndarray, value: Any) -> np.ndarray:
    """A column that holds both what it held and `value`: a wider number if that will do, objects otherwise."""
    array = np.asarray(value)
    if array.shape == column.shape[1:] and array.dtype.kind in "biuf":
        return column.astype(np.result_type(column.dtype, array.dtype))
    wide = np.full(len(column), None, dtype=object)
    for k, item in enumerate(column):
        wide[k] = item
    return wide


class SlotTable:
    """Which numeric info keys have a slot in shared memory. A key gets one the first time it is seen."""

    def __init__(self) -> None:
        self.slots: dict[str, Slot] = {}
        self._names: list[tuple[str, str, np.dtype]] = []
        self._refused: set[str] = set()

    def add_keys(self, info: dict[str, Any]) -> bool:
        """Make slots for the numeric keys of an info that came in a report; returns whether there are new ones."""
        before = len(self.slots)
        for key, value in info.items():
            if key in self.slots or key in self._refused:
                continue
            dtype = _slot_dtype(value)
            if dtype is None or len(self.slots) == INFO_SLOTS:
                self._refused.add(key)
                continue
            types = (type(value), int) if dtype.kind == "f" else (type(value),)
            self.slots[key] = Slot(len(self.slots), key, dtype, types)
            self._names.append((key, f"_{key}", dtype))
        return len(self.slots) > before

    def read(self, infos: dict[str, Any], values: np.ndarray, masks: np.ndarray, rows: slice | np.ndarray) -> None:
        """Add what the envs wrote into their slots."""
        left = read_slots(infos, self._names, values, masks) if rows is ALL else range(len(self._names))
        if left:
            self._read_some(left, infos, values, masks, rows)

    def _read_some(
        self, chosen: Sequence[int], infos: dict[str, Any], values: np.ndarray, masks: np.ndarray, rows: Any
    ) -> None:
        """Copy all keys at once, and skip those that no env set in this step: fewer calls are better where envs have
        emptied the caches (five keys of emulators, one of them for ends of episodes only, took 36 us one by one, and
        12 us this way)."""
        used = len(self.slots)
        masks, columns = masks[:used, rows].copy(), values[:used, rows].copy()
        integers, info_masks, count = columns.view(np.int64), masks.tobytes(), masks.shape[1]
        none_set, all_set = bytes(count), b"\1" * count
        for k in chosen:
            key, mask_key, dtype = self._names[k]
            info_mask = info_masks[k * count : (k + 1) * count]
            if info_mask == none_set:
                continue
            if info_mask != all_set:
                columns[k, ~masks[k]] = 0.0
            column = integers[k] if dtype.kind in "iu" else columns[k]
            if dtype is not column.dtype:
                column = column.astype(dtype)
            if key in infos:  # other envs sent it in a report
                _add_column(infos, key, column, masks[k])
            else:
                infos[key], infos[mask_key] = column, masks[k]


def _add_column(infos: dict[str, Any], key: str, column: np.ndarray, mask: np.ndarray) -> None:
    for at in mask.nonzero()[0].tolist():
        add_info(infos, {key: column[at]}, at, len(mask))


def _slot_dtype(value: Any) -> np.dtype | None:
    """The column type of a number that eight bytes hold exactly."""
    if isinstance(value, (*_NUMBERS, np.bool_, np.floating, np.integer)):
        dtype = np.asarray(value).dtype
        return dtype if dtype.kind in "biuf" and dtype.itemsize <= 8 else None
    return None


def merge_report(
    report: StepReport, infos: dict[str, Any], slots: SlotTable, batch: Batch, position: dict[int, int] | None
) -> bool:
    """Merge a report into the batch and the infos of a step. `position` says where each row of the batch is in the
    infos, None if they hold all rows. Returns whether there are new slots."""
    count = batch.spec.num_envs if position is None else len(position)
    for k, row, value in report.objects:
        batch.observations.columns[k][row] = value
    for k, row, value in report.final_objects:
        assert batch.finals is not None
        batch.finals.columns[k][row] = value
    new_slots = False
    for row, info in report.infos:
        add_info(infos, info, row if position is None else position[row], count)
        new_slots |= slots.add_keys(info)
    for row, info in report.final_infos:
        add_info(infos.setdefault("final_info", {}), info, row if position is None else position[row], count)
    return new_slots


def positions_of(rows: slice | np.ndarray, num_envs: int) -> dict[int, int] | None:
    """Where each row of the batch is in the infos of these rows; None if these are all rows."""
    return None if rows is ALL else {row: at for at, row in enumerate(np.arange(num_envs)[rows].tolist())}
