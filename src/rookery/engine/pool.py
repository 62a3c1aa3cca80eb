"""Threads that share out one loop over envs. Results do not depend on them: no env looks at another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any

CHUNKS = 4  # a thread's share is cut so fine that one which is held up leaves the rest to the others


class Pool:
    """`threads` threads, the caller's among them, that run `work(low, high, slot)` over a range."""

    def __init__(self, threads: int, work: Callable[[int, int, int], int]) -> None:
        self._work = work
        self._go = [threading.Semaphore(0) for _ in range(threads - 1)]
        self._done = threading.Semaphore(0)
        self._ranges: list[tuple[int, int]] = []
        self._next = count()
        self._outcomes = [0] * threads
        self._error: BaseException | None = None
        self._open = True
        for slot in range(1, threads):
            threading.Thread(target=self._serve, args=(slot,), name=f"rookery-kernel-{slot}", daemon=True).start()

    def run(self, size: int) -> int:
        """Work through [0, size); returns the union of what the parts returned."""
        chunks = min(size, CHUNKS * len(self._outcomes))
        self._ranges = [(k * size // chunks, (k + 1) * size // chunks) for k in range(chunks)]
        self._next, self._error = count(), None
        rung = 0
        try:
            for bell in self._go:
                bell.release()
                rung += 1
            self._take(0)
        finally:
            self._await(rung)
        if self._error is not None:
            raise self._error
        outcome = 0
        for part in self._outcomes:
            outcome |= part
        return outcome

    def _await(self, threads: int) -> None:
        """Wait for as many threads to be done. Ctrl-C has to wait too: a thread that is left behind would work into the
        next round."""
        interrupted: KeyboardInterrupt | None = None
        while threads:
            try:
                self._done.acquire()
                threads -= 1
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def close(self) -> None:
        self._open = False
        for bell in self._go:
            bell.release()

    def _take(self, slot: int) -> None:
        ranges, turns, outcome = self._ranges, self._next, 0
        while (k := next(turns)) < len(ranges):
            outcome |= self._work(*ranges[k], slot)
        self._outcomes[slot] = outcome

    def _serve(self, slot: int) -> None:
        bell: Any = self._go[slot - 1]
        while True:
            bell.acquire()
            if not self._open:
                return
            try:
                self._take(slot)
            except BaseException as error:  # noqa: BLE001 - told to the caller's thread
                self._error = error
            self._done.release()
