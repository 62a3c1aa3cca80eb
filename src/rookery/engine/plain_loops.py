"""The engine's inner loops in Python: the reference for `_loops.c`, and used where that could not be compiled."""

from __future__ import annotations

import math
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rookery.engine.machine import yield_core


def fence() -> None:
    """A full memory barrier, 0.3 us: what was written before it is seen before what is written after it.

    Releasing and then acquiring a lock are the atomic operations that plain Python offers; in this order the release
    keeps earlier writes above it and the acquire keeps later reads below. x86 needs it for store-then-load (a wake-up
    was lost within seconds without it), ARM for all data passed between processes. The lock is a new one each time: a
    shared one could be released by another thread, or stay released after an interrupt.
    """
    lock = allocate_lock()
    lock.acquire()
    lock.release()
    lock.acquire()


def watch(words: memoryview, at: int, old: int, seconds: float) -> bool:
    """Poll a word until it differs from `old`, yielding the core between two reads; False after `seconds`."""
    clock = time.perf_counter
    until = clock() + seconds
    while words[at] == old:
        if clock() > until:
            return False
        yield_core()
    return True


def step_each(
    calls: list[Callable[[Any], Any]],
    actions: Iterable[Any],
    phases: list[int],
    words: memoryview,
    at: int,
    first: int,
    caught: Callable[[BaseException], Any],
) -> list[Any]:
    """The result of each call for its action: None where the phase is not 0, without a call, and `caught(error)` for an
    exception. `words[at]` is set to row `first + i` before the i-th call."""
    results: list[Any] = []
    for row, (call, action, phase) in enumerate(zip(calls, actions, phases, strict=True), first):
        words[at] = row
        try:
            results.append(None if phase else call(action))
        except BaseException as error:  # noqa: BLE001 - `caught` raises again what it should
            results.append(caught(error))
    return results


def store(
    results: list[Any],
    rows: np.ndarray,
    rewards: memoryview,
    terminated: memoryview,
    truncated: memoryview,
    returns: memoryview,
    lengths: memoryview,
    slots: dict[str, tuple[tuple[type, ...], memoryview, memoryview]],
) -> tuple[float, bool, Sequence[int]]:
    """Store the results of ordinary steps: observations in `rows`, numbers of infos in their `slots`. Returns the sum
    of their rewards, whether slots were used, and the positions of results that it did not store: here, all."""
    return 0.0, False, range(len(results))


def read_slots(
    infos: dict[str, Any], names: list[tuple[str, str, np.dtype]], values: np.ndarray, masks: np.ndarray
) -> Sequence[int]:
    """Add what envs wrote into their slots to the infos: a column and a mask per key. Returns the positions of slots
    that it did not read: here, all."""
    return range(len(names))


def read_records(
    infos: dict[str, Any],
    columns: list[tuple[str, str, np.dtype, int, tuple[int, ...]]],
    records: np.ndarray,
    mask: np.ndarray,
) -> None:
    """Add fields of records, which are rows of bytes, to the infos: views of one copy of all records, each beside one
    copy of the mask. A column is a key, its mask's key, the dtype of its numbers, its place in a record and its shape.
    """
    copied, mask = records.copy(), mask.copy()
    for key, mask_key, dtype, place, shape in columns:
        strides = [copied.shape[1], *(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))]
        infos[key], infos[mask_key] = np.ndarray((len(copied), *shape), dtype, copied, place, strides), mask


def inside(rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether all values lie within their limits; NaN does not. All three are contiguous and of one dtype and size.
    This is the reference for the compiled version; without that, `Bounds` compares into arrays that it keeps."""
    return bool(((rows >= low) & (rows <= high)).all())
