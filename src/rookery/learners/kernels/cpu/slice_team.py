"""A small team of threads for a learner's compiled work. Needs Numba.

A piece of work is a number of tasks: calls `entry(plan, command, task, task + 1, slot)` of a compiled function. Which
thread runs a task must not matter: tasks write to places of their own, and are divided in the same way for any number
of threads. The threads stay in compiled code, without Python's lock. Between two pieces of work they spin for some 0.5
ms, then sleep.
"""

from __future__ import annotations

import os

import numpy as np

from rookery.atomics import (
    ASLEEP,
    CLOSED,
    LINE,
    MOST_THREADS,
    OWN_WORDS,
    WAKE_READ,
    WAKE_WRITE,
    atomic_add,
    atomic_exchange,
    call_entry,
    cpu_pause,
    load,
    start_threads,
    store,
    wait_for_wake,
    wake,
    yield_thread,
)
from rookery.learners.cached_njit import compiled, inner

BUSY_SPINS = 400  # checks for the next work at full speed, some 8 us
YIELDING_SPINS = 2000  # checks that yield the core first, some 0.5 ms; then the thread sleeps

# Further words that the threads share, by their offset in bytes. What one side writes while the other watches is alone
# in its cache line; what is written together lies together.
LEFT, DONE = OWN_WORDS, OWN_WORDS + LINE
ENTRY, PLAN, COMMAND, THREADS, END = range(OWN_WORDS + 2 * LINE, OWN_WORDS + 2 * LINE + 40, 8)


class SliceTeam:
    """`threads` threads, including the caller's, until this object is closed or garbage-collected. A team of one has no
    thread of its own."""

    def __init__(self, threads: int) -> None:
        self.threads, self.pid = min(threads, MOST_THREADS), os.getpid()
        self._words = np.zeros(END // 8, np.int64)
        self._words[THREADS // 8] = self.threads
        self.address: int = self._words.ctypes.data
        if self.threads > 1:
            self._stop = start_threads(self, self._words, self.threads, work_loop, "rookery-learner")

    @property
    def usable(self) -> bool:
        """Whether its threads are there: a forked process has none of them."""
        return self.threads == 1 or self.pid == os.getpid()

    def run(self, entry: int, plan: int, command: int, tasks: int) -> None:
        """Run all tasks of a command, and wait for them."""
        run_tasks(self.address, entry, plan, command, tasks)

    def close(self) -> None:
        """Stop the threads and join them."""
        if self.threads > 1:
            self._stop()


# --- compiled ---------------------------------------------------------------------------------------------------------


@compiled
def run_tasks(words: int, entry: int, plan: int, command: int, tasks: int) -> None:
    """The caller's part: starts the work, runs tasks like the other threads, and waits until all are done."""
    if load(words + THREADS) == 1 or tasks == 1:
        for task in range(tasks):
            call_entry(entry, plan, command, task, task + 1, 0)
        return
    store(words + ENTRY, entry)
    store(words + PLAN, plan)
    store(words + COMMAND, command)
    store(words + DONE, 0)
    store(words + LEFT, tasks)  # last: threads may take tasks from now on
    if load(words + ASLEEP) > 0:
        wake(load(words + WAKE_WRITE), atomic_exchange(words + ASLEEP, 0))
    _run_some(words, 0)
    spins = 0
    while load(words + DONE) < tasks:
        spins += 1
        _pause(spins)


@compiled
def work_loop(words: int, slot: int) -> None:
    """Another thread's part: work after work, until the team is closed."""
    spins = 0
    while load(words + CLOSED) == 0:
        if load(words + LEFT) > 0:
            _run_some(words, slot)
            spins = 0
        elif spins < BUSY_SPINS + YIELDING_SPINS:
            spins += 1
            _pause(spins)
        else:
            # Counted as asleep first: work that starts after this line wakes this thread too.
            atomic_add(words + ASLEEP, 1)
            if load(words + LEFT) <= 0 and load(words + CLOSED) == 0:
                wait_for_wake(load(words + WAKE_READ))
            spins = 0


@inner
def _run_some(words: int, slot: int) -> None:
    """Run tasks until none is left. What a task is, is read after it was taken: then it cannot change."""
    while load(words + LEFT) > 0:
        task = atomic_add(words + LEFT, -1) - 1
        if task >= 0:
            call_entry(load(words + ENTRY), load(words + PLAN), load(words + COMMAND), task, task + 1, slot)
            atomic_add(words + DONE, 1)


@inner
def _pause(spins: int) -> None:
    """A short pause; after BUSY_SPINS of them, other threads may use this core."""
    if spins < BUSY_SPINS:
        cpu_pause()
    else:
        yield_thread()
