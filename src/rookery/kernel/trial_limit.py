"""A time limit for trials of a world in plain Python."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class DryRunTimeout(Exception):
    """Raised in a dry run that takes too long."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise DryRunTimeout in the block if it takes longer. (It does not interrupt a call of compiled code.)

    >>> with time_limit(0.05):
    ...     while True:
    ...         pass
    Traceback (most recent call last):
    rookery.kernel.trial_limit.DryRunTimeout
    """
    thread, lock, done = threading.get_ident(), threading.Lock(), False

    def interrupt() -> None:
        with lock:
            if not done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(DryRunTimeout))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:  # an exception raised after this point would hit unrelated code
            done = True
        timer.cancel()
