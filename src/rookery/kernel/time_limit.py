"""Plain Python that is given up after some time, in whatever loop it is."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooLong(Exception):
    """Raised in the middle of what takes too long."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLong in the block, if it is not done in time. (A call of compiled code in it is not interrupted.)

    >>> with at_most(0.05):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    rookery.kernel.time_limit.TooLong
    """
    thread, lock, done = threading.get_ident(), threading.Lock(), False

    def give_up() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLong))

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:  # what is raised from now on would hit the wrong code
            done = True
        timer.cancel()
