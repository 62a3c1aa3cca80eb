"""The engine's inner loops in Python: what they do, and what runs where `_loops.c` could not be compiled."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np


def fence() -> None:
    """A full memory barrier, 0.3 us: what was written before it is seen before what is written after it.

    Releasing and then acquiring a lock are the atomic operations that plain Python offers; in this order the release
    keeps earlier writes above it and the acquire keeps later reads below. x86 needs it for store-then-load (a wake-up
    was lost within seconds without it), ARM for every hand-over. The lock is a new one each time: one that were kept
    could be found released by another thread, or stay so after an interrupt.
    """
    lock = allocate_lock()
    lock.acquire()
    lock.release()
    lock.acquire()


def watch(words: memoryview, at: int, old: int, seconds: float) -> bool:
    """Look at a word until it differs from `old`, giving way to any other process that wants this core."""
    give_way, clock = os.sched_yield, time.perf_counter
    until = clock() + seconds
    while words[at] == old:
        if clock() > until:
            return False
        give_way()
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
    """What each call returns for its action: None for those in another phase than 0, which are not called, and what
    `caught` makes of an exception. Row `first + i` is announced in `words[at]` before the i-th is called."""
    results: list[Any] = []
    for row, (call, action, phase) in enumerate(zip(calls, actions, phases, strict=True), first):
        words[at] = row
        try:
            results.append(None if phase else call(action))
        except BaseException as error:  # noqa: BLE001 - `caught` knows which are not ours to keep
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
    """Put away the results of ordinary steps: observations into `rows`, numbers of infos into their `slots`. Returns
    the sum of their rewards, whether slots were used, and the positions of the results left to do: here, all."""
    return 0.0, False, range(len(results))


def read_slots(
    infos: dict[str, Any], names: list[tuple[str, str, np.dtype]], values: np.ndarray, masks: np.ndarray
) -> Sequence[int]:
    """Add what envs wrote into their slots to the infos: a column under each key, a mask under its other name. Returns
    the positions of the slots left to do: here, all."""
    return range(len(names))


def inside(rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether all values lie within their limits; NaN does not. All three are contiguous and of one dtype and size.
    This says what the compiled one does; where it is missing, `observe.Bounds` compares into arrays that it keeps."""
    return bool(((rows >= low) & (rows <= high)).all())
