"""Threads that read studies. A database may answer late or never: such a thread is left behind, and another continues.

They are daemons, so that the end of the dashboard does not wait for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

STUCK_SECONDS = 0.3  # after which the next study is read by another thread
REQUEST_SECONDS = 25.0  # longer than one look at a study may take
SLOW_SECONDS = 0.5  # a failure that took longer is remembered
PAUSE = 10  # times as long as it took until it is retried
T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """The result of a function that runs in a thread of its own."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        try:
            result, error = function(), None
        except Exception as raised:  # noqa: BLE001 - raised again where the future is awaited
            result, error = None, raised
        with suppress(RuntimeError):  # the loop is closed: the dashboard has ended
            loop.call_soon_threadsafe(_tell, future, result, error)

    threading.Thread(target=work, name="study", daemon=True).start()
    try:
        return await asyncio.wait_for(future, REQUEST_SECONDS)
    except TimeoutError:
        raise HTTPException(504, "the database of the study does not answer: is its drive still there?") from None


def _tell(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():  # nobody waits any more
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def all_within(seconds: float, functions: Sequence[Callable[[], T]], late: T) -> list[T]:
    """The results of functions that are short, as a rule: one thread calls them in turn. While one of them takes long,
    a further thread calls the others. `late` stands for those that have not returned in time."""
    results = [late] * len(functions)
    left = deque(enumerate(functions))
    returned = threading.Semaphore(0)

    def work() -> None:
        while True:
            try:
                place, function = left.popleft()
            except IndexError:
                return
            try:
                results[place] = function()
            finally:
                returned.release()

    def start() -> None:
        threading.Thread(target=work, name="studies", daemon=True).start()

    count, deadline = 0, time.monotonic() + seconds
    start()
    while count < len(functions) and time.monotonic() < deadline:
        if returned.acquire(timeout=STUCK_SECONDS):
            count += 1
        elif left:
            start()
    return list(results)


class SlowFailures:
    """Remembers what failed after a long time, so that it is not tried at every request."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[float, Exception]] = {}

    @contextmanager
    def watching(self, key: Hashable) -> Iterator[None]:
        """Raise the last failure again if it was slow and is recent; remember one that happens within."""
        until, failure = self._known.get(key, (0.0, None))
        began = time.monotonic()
        if failure is not None and began < until:
            raise failure
        try:
            yield
        except Exception as error:
            ended = time.monotonic()
            if ended - began > SLOW_SECONDS:
                self._known[key] = ended + PAUSE * (ended - began), error
            raise
        self._known.pop(key, None)
