"""What a step leaves besides arrays: infos, observations without a fixed size, and what an env raised."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cloudpickle
import numpy as np

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
