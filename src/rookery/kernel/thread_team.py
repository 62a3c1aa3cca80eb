"""Threads that share out a world's loop over envs, in compiled code throughout. Import it late: it needs Numba.

Results do not depend on them: no env looks at another. Threads that return to Python for each piece of work wait for
its lock, 16 of them nearly all the time. These look at a word in memory for the next round, and sleep only after a
pause, so that a round of 20 us is worth sharing. Each begins with envs of its own, which are still in its caches, then
helps the others. So whoever is held up, or asleep, is not waited for: the others do its part.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import Any

import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

from rookery.kernel.atomics import BYTE, NUMBER, WORD, add, call_c, exchange, give_way, load, merge, relax, store
from rookery.kernel.batch_loop import STEP
from rookery.kernel.interrupt import LOOK_EVERY, should_stop
from rookery.kernel.native import call_entry, compiled

PIECES = 4  # into which a thread's share is cut, so that the others can help
EAGER_LOOKS = 100  # looks for the next round at full speed, some 2 us
PATIENT_LOOKS = 400  # looks that give way to others first, some 100 us more; then a thread sleeps
MOST_THREADS = 1024

# The words on the board, by their offset in bytes. Each has a line of the cache to itself, or who writes one would hold
# up who reads another. From TICKETS on, there is one for each thread: the next piece of its share that is to be taken.
LINE = 64
ROUND, DONE, OUTCOME, ASLEEP, OVER, EAR, BELL, THREADS, SIZE, ENTRY, PLAN, TICKETS = range(0, 12 * LINE, LINE)


class ThreadTeam:
    """`threads` threads, the caller's among them, for as long as this object is there and open."""

    def __init__(self, threads: int) -> None:
        threads = min(threads, MOST_THREADS)
        board = np.zeros((TICKETS + threads * LINE) // 8, np.int64)
        ear, bell = os.pipe()
        for word, value in ((THREADS, threads), (EAR, ear), (BELL, bell)):
            board[word // 8] = value
        board[TICKETS // 8 :] = PIECES  # nothing to do yet
        self._address = board.ctypes.data  # of memory that the threads keep, and the finalizer
        self._share = compiled("team-share", _share, NUMBER(*[NUMBER] * 4))
        serve = compiled("team-serve", _serve, NUMBER(NUMBER, NUMBER))
        others = [
            threading.Thread(target=_stay, args=(serve, board, slot), name=f"rookery-kernel-{slot}", daemon=True)
            for slot in range(1, threads)
        ]
        for thread in others:
            thread.start()
        self._finalizer = weakref.finalize(self, _dismiss, board, others, ear, bell)

    def run(self, entry: int, plan: int, size: int) -> int:
        """Step envs [0, size) of the plan at an address; returns the union of what came of it."""
        return self._share(self._address, entry, plan, size)

    def close(self) -> None:
        """Let the threads go."""
        self._finalizer()


def _stay(serve: Any, board: np.ndarray, slot: int) -> None:
    """What a thread runs: it keeps the board, until it is let go."""
    serve(board.ctypes.data, slot)


def _dismiss(board: np.ndarray, threads: list[threading.Thread], ear: int, bell: int) -> None:
    board[OVER // 8] = 1
    with contextlib.suppress(OSError):
        os.write(bell, bytes(len(threads)))
    for thread in threads:  # before the pipe is closed: its number would soon be another file's
        thread.join()
    os.close(ear)
    os.close(bell)


# --- compiled ---------------------------------------------------------------------------------------------------------


def _share(board: int, entry: int, plan: int, size: int) -> int:
    """The caller's part: begins a round, takes pieces like all the others, and waits for those still at work."""
    threads = load(board + THREADS)
    store(board + ENTRY, entry)
    store(board + PLAN, plan)
    store(board + SIZE, size)
    store(board + OUTCOME, 0)
    store(board + DONE, 0)
    for share in range(threads):
        store(board + TICKETS + share * LINE, 0)
    add(board + ROUND, 1)
    sleepers = exchange(board + ASLEEP, 0)
    if sleepers > 0:
        ring(load(board + BELL), sleepers)
    _take_pieces(board, 0)
    looks = 0
    while load(board + DONE) < threads * PIECES:
        looks += 1
        _look_away(looks)
        if looks % LOOK_EVERY == 0:
            should_stop(plan)  # only this thread can notice a Ctrl-C; it tells the others by way of the plan
    return load(board + OUTCOME)


def _serve(board: int, slot: int) -> int:
    """Another thread's part: round after round, until it is over."""
    seen, looks = 0, 0
    while load(board + OVER) == 0:
        now = load(board + ROUND)
        if now != seen:
            _take_pieces(board, slot)
            seen, looks = now, 0
        elif looks < EAGER_LOOKS + PATIENT_LOOKS:
            looks += 1
            _look_away(looks)
        else:
            # Counted among the sleepers first: a round that begins from here on rings for this thread too.
            add(board + ASLEEP, 1)
            if load(board + ROUND) == seen and load(board + OVER) == 0:
                listen(load(board + EAR))
            looks = 0
    return 0


def _take_pieces(board: int, slot: int) -> None:
    """Do the own share; then, if the others do not come to an end soon, what is left of theirs."""
    threads = load(board + THREADS)
    for turn in range(threads):
        share = (slot + turn) % threads
        piece = add(board + TICKETS + share * LINE, 1)
        while piece < PIECES:
            _do(board, slot, share * PIECES + piece, threads * PIECES)
            piece = add(board + TICKETS + share * LINE, 1)
        if turn == 0 and _is_done_soon(board, threads * PIECES):
            return


def _is_done_soon(board: int, pieces: int) -> bool:
    """Another's envs would have to be fetched from its caches, and back in the next round: that takes longer."""
    for _ in range(EAGER_LOOKS):
        if load(board + DONE) >= pieces:
            return True
        relax()
    return False


def _do(board: int, slot: int, piece: int, pieces: int) -> None:
    size = load(board + SIZE)
    low, high = piece * size // pieces, (piece + 1) * size // pieces
    if low < high:
        merge(board + OUTCOME, call_entry(load(board + ENTRY), load(board + PLAN), STEP, low, high, slot))
    add(board + DONE, 1)


def _look_away(looks: int) -> None:
    """A moment's pause; after the first few, whoever else wants this core may have it."""
    if looks < EAGER_LOOKS:
        relax()
    else:
        give_way()


@intrinsic
def listen(typing_context: Any, ear: Any) -> Any:
    """Sleeps until the bell rings."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call_c(builder, "read", [arguments[0], cgutils.alloca_once(builder, BYTE), WORD(1)])

    return NUMBER(NUMBER), generate


@intrinsic
def ring(typing_context: Any, bell: Any, sleepers: Any) -> Any:
    """Wakes so many sleepers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        noise = cgutils.alloca_once(builder, BYTE, size=WORD(MOST_THREADS))
        return call_c(builder, "write", [arguments[0], noise, arguments[1]])

    return NUMBER(NUMBER, NUMBER), generate
