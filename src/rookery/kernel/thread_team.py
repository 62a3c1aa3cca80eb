"""A thread pool for a world's loop over envs, written in compiled code. Import it late: it needs Numba.

Results do not depend on the threads: no env reads another env's data. Threads that returned to Python after each batch
would wait for the GIL; 16 of them nearly all the time. These threads wait for the next batch by spinning on a word in
memory, and sleep only if none comes for a while, so that even a batch of 20 us gains from them. Each thread first steps
its own share of the envs, which is still in its caches, then chunks of the others' shares. So a thread that is
descheduled or asleep does not hold up the batch.

Where a thread has only a few costly envs, the batch would often end with threads that wait for one which began a costly
env last. There, threads take single envs, those first whose last step took longest. And if a world can make the last
part of a step apart, threads only begin the steps of the envs that they take last, and then make the last parts, in the
order in which the first ones were done: what a thread can begin last is then a small part of a step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from rookery.atomics import (
    ASLEEP,
    CLOSED,
    LINE,
    MOST_THREADS,
    NUMBER,
    OWN_WORDS,
    WAKE_READ,
    WAKE_WRITE,
    atomic_add,
    atomic_exchange,
    atomic_or,
    call_entry,
    cpu_pause,
    load,
    start_threads,
    store,
    wait_for_wake,
    wake,
    yield_thread,
)
from rookery.kernel.batch_loop import BEGIN_STEP, CHECK_ACTIONS, CHUNKS, STEP, Division
from rookery.kernel.env_loop import FAULT
from rookery.kernel.interrupt import POLL_EVERY, clock, should_stop
from rookery.kernel.native import compiled
from rookery.kernel.runner import prepared

BUSY_SPINS = 100  # looks for the next batch with a pause of the CPU after each, some 2 us; then each yields the core
LOOKS = 64  # yielding looks between two checks of the time, some 16 us
LONGEST_WAIT = 20_000_000  # nanoseconds for which it stays awake while others still work on a batch

# Further words that the threads share, by their offset in bytes. Each is alone in its cache line: a write to one would
# slow down reads of a neighbour. From NEXT_CHUNK on there is one word per share: the number of its next chunk.
(
    BATCH, DONE, OUTCOME, BEGUN, IN_PARTS, SHARES, SHARE, LOOK_FOR, ORDER, SIZE, ENTRY, PLAN, NEXT_CHUNK,
) = range(OWN_WORDS, OWN_WORDS + 13 * LINE, LINE)  # fmt: skip


class ThreadTeam:
    """`threads` threads, including the caller's, until this object is closed or garbage-collected. Each steps chunks of
    its own share of a batch, if it has one, and then chunks of the others."""

    def __init__(self, threads: int, division: Division | None = None) -> None:
        threads = min(threads, MOST_THREADS)
        shares, chunks, by_cost, patience, in_parts = Division(threads, CHUNKS) if division is None else division
        envs, parts = chunks - in_parts if by_cost else 0, 2 if in_parts else 1
        order = (NEXT_CHUNK + shares * LINE) // 8
        # From `order` on: the envs as they are taken; those that have begun; what each env took; the notes.
        words = np.zeros(order + in_parts + (2 + 3 * parts) * envs, np.int64)
        words[order : order + envs] = range(envs)
        # Of each env's step, or of its first part and of its last one: nanoseconds, when it began, and on which thread.
        # The last part of a step in one part took no time.
        self.last_steps = words[order + in_parts + 2 * envs :].reshape(3, parts, envs)
        fixed = {
            SHARES: shares, SHARE: chunks, LOOK_FOR: patience, IN_PARTS: in_parts,
            ORDER: words.ctypes.data + 8 * order if by_cost else 0,
        }  # fmt: skip
        for word, value in fixed.items():
            words[word // 8] = value
        words[NEXT_CHUNK // 8 : order] = chunks  # nothing to do yet
        self._address = words.ctypes.data  # the threads and the finalizer keep the array alive
        self._run_batch = compiled("team-run-batch", _run_batch, NUMBER(*[NUMBER] * 4))
        worker_loop = compiled("team-worker-loop", _worker_loop, NUMBER(NUMBER, NUMBER))
        self._stop = start_threads(self, words, threads, worker_loop, "rookery-kernel")

    def prepare(self, entry: int, plan: int, size: int) -> Callable[[], int]:
        """A function that steps envs [0, size) of the plan at an address, and returns the bitwise or of their outcomes.
        It does nothing if any action is invalid."""
        return prepared(ctypes.cast(self._run_batch, ctypes.c_void_p).value or 0, self._address, entry, plan, size)

    def close(self) -> None:
        """Stop the threads and join them."""
        self._stop()


# --- compiled ---------------------------------------------------------------------------------------------------------


def _run_batch(words: int, entry: int, plan: int, size: int) -> int:
    """The caller's part: starts a batch, runs chunks like the other threads, and waits until all chunks are done."""
    invalid = call_entry(entry, plan, CHECK_ACTIONS, 0, size, 0)
    if invalid != 0:
        return invalid
    shares, order = load(words + SHARES), load(words + ORDER)
    if order != 0:
        _sort_by_cost(order, order + 8 * (size + load(words + IN_PARTS)), size)
        _forget_begun(words, order + 8 * size)
    store(words + ENTRY, entry)
    store(words + PLAN, plan)
    store(words + SIZE, size)
    store(words + OUTCOME, 0)
    store(words + DONE, 0)
    for share in range(shares):
        store(words + NEXT_CHUNK + share * LINE, 0)
    atomic_add(words + BATCH, 1)
    sleeping = atomic_exchange(words + ASLEEP, 0)
    if sleeping > 0:
        wake(load(words + WAKE_WRITE), sleeping)
    _run_chunks(words, 0)
    spins = 0
    while load(words + DONE) < shares * load(words + SHARE):
        spins += 1
        _pause(spins)
        if spins % POLL_EVERY == 0:
            should_stop(plan)  # only this thread can see a Ctrl-C; the plan passes it to the others
    return load(words + OUTCOME)


def _worker_loop(words: int, slot: int) -> int:
    """Another thread's part: batch after batch, until the team is closed."""
    seen, spins, idle_since = 0, 0, clock()
    while load(words + CLOSED) == 0:
        now = load(words + BATCH)
        if now != seen:
            _run_chunks(words, slot)
            _wait_for_others(words, now)
            seen, spins, idle_since = now, 0, clock()
        elif spins % LOOKS != 0 or clock() - idle_since < load(words + LOOK_FOR):
            spins += 1
            _pause(spins)
        else:
            # Counted as asleep first: a batch that starts after this line wakes this thread too.
            atomic_add(words + ASLEEP, 1)
            if load(words + BATCH) == seen and load(words + CLOSED) == 0:
                wait_for_wake(load(words + WAKE_READ))
            spins, idle_since = 0, clock()
    return 0


def _wait_for_others(words: int, batch: int) -> int:
    """Stay awake until a batch is over; 0 if it took too long. A thread that sleeps while one env takes long is late in
    the next batch. On 16 virtual cores, which are taken away for some milliseconds now and then, 14 % of the time was
    spent before the first env of a batch, and 5 % by threads that never slept."""
    chunks, spins, since = load(words + SHARES) * load(words + SHARE), 0, clock()
    while load(words + DONE) < chunks and load(words + BATCH) == batch and load(words + CLOSED) == 0:
        spins += 1
        _pause(spins)
        if spins % LOOKS == 0 and clock() - since > LONGEST_WAIT:
            return 0
    return 1


def _sort_by_cost(order: int, costs: int, size: int) -> None:
    """The costliest envs first. They are nearly in order from the last batch, where insertion takes few moves."""
    for k in range(1, size):
        env = load(order + 8 * k)
        cost, place = load(costs + 8 * env), k
        while place > 0 and load(costs + 8 * load(order + 8 * (place - 1))) < cost:
            store(order + 8 * place, load(order + 8 * (place - 1)))
            place -= 1
        store(order + 8 * place, env)


def _run_chunks(words: int, slot: int) -> None:
    """Run the own share; then, unless the others finish soon, the remaining chunks of theirs."""
    shares, chunks = load(words + SHARES), load(words + SHARE)
    for offset in range(shares):
        share = (slot + offset) % shares
        chunk = atomic_add(words + NEXT_CHUNK + share * LINE, 1)
        while chunk < chunks:
            _run_chunk(words, slot, share * chunks + chunk, shares * chunks)
            chunk = atomic_add(words + NEXT_CHUNK + share * LINE, 1)
        if offset == 0 and _finishes_soon(words, shares * chunks):
            return


def _finishes_soon(words: int, chunks: int) -> bool:
    """Whether all chunks are done within a short wait. To take another thread's envs out of its caches costs more."""
    for _ in range(BUSY_SPINS):
        if load(words + DONE) >= chunks:
            return True
        cpu_pause()
    return False


def _run_chunk(words: int, slot: int, chunk: int, chunks: int) -> None:
    size, order = load(words + SIZE), load(words + ORDER)
    if order != 0:
        _run_part(words, slot, order, chunk)
    else:
        low, high = chunk * size // chunks, (chunk + 1) * size // chunks
        if low < high:
            atomic_or(words + OUTCOME, call_entry(load(words + ENTRY), load(words + PLAN), STEP, low, high, slot))
    atomic_add(words + DONE, 1)


def _run_part(words: int, slot: int, order: int, chunk: int) -> None:
    """Step an env; or begin its step; or make the last part of one that has begun. To have begun is noted in the order
    in which it happens, as the number of the env + 1; or as -1, if the step was stopped and must not be continued."""
    size, in_parts = load(words + SIZE), load(words + IN_PARTS)
    begun = order + 8 * size
    if chunk < size - in_parts:
        _run_env(words, slot, STEP, load(order + 8 * chunk), 0)
    elif chunk < size:
        env = load(order + 8 * chunk)
        outcome = _run_env(words, slot, BEGIN_STEP, env, 0)
        store(begun + 8 * atomic_add(words + BEGUN, 1), -1 if outcome & FAULT else env + 1)
    else:
        env = _wait_for_begun(words, begun + 8 * (chunk - size)) - 1
        if env >= 0:
            _run_env(words, slot, STEP, env, 1)


def _wait_for_begun(words: int, place: int) -> int:
    """What is noted there. First parts are taken before all last ones, so that one is being made."""
    spins = 0
    while load(place) == 0:
        spins += 1
        _pause(spins)
        if spins % POLL_EVERY == 0:
            should_stop(load(words + PLAN))  # as in _run_batch: this may be the thread that can see a Ctrl-C
    return load(place)


def _forget_begun(words: int, begun: int) -> None:
    store(words + BEGUN, 0)
    for k in range(load(words + IN_PARTS)):
        store(begun + 8 * k, 0)


def _run_env(words: int, slot: int, command: int, env: int, part: int) -> int:
    """Run a command on one env, and note what it takes: the two looks at the clock cost 0.1 us."""
    began = clock()
    outcome = call_entry(load(words + ENTRY), load(words + PLAN), command, env, env + 1, slot)
    if outcome != 0:
        atomic_or(words + OUTCOME, outcome)
    took = clock() - began
    cost = load(words + ORDER) + 8 * (load(words + SIZE) + load(words + IN_PARTS) + env)
    store(cost, took if part == 0 else load(cost) + took)
    _note(words, cost, part, took, began, slot)
    if part == 0:
        _note(words, cost, 1, 0, began + took, slot)  # until the last part is made, if it is apart
    return outcome


def _note(words: int, cost: int, part: int, took: int, began: int, slot: int) -> None:
    """Note a part of a step, in the three rows after what envs took."""
    size = 8 * load(words + SIZE)
    parts = 2 if load(words + IN_PARTS) != 0 else 1
    if part < parts:
        note = cost + (1 + part) * size
        store(note, took)
        store(note + parts * size, began)
        store(note + 2 * parts * size, slot)


def _pause(spins: int) -> None:
    """A short pause; after BUSY_SPINS of them, other threads may use this core. Longer pauses are slower on virtual
    machines: on 16 cores, threads that met with pauses only made 16 % fewer steps."""
    if spins < BUSY_SPINS:
        cpu_pause()
    else:
        yield_thread()
