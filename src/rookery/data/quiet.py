"""Calls polars on files that may be damaged: it may panic, and print the stack of its own code."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from rookery.extras import load_polars

Result = TypeVar("Result")
STDERR = 2
_one_at_a_time = threading.Lock()


class UnreadableTable(Exception):
    """polars cannot read a file; the message says why in one line."""


def guarded(read: Callable[[], Result]) -> Result:
    """What `read` returns; an UnreadableTable after any error of polars."""
    panic = load_polars().exceptions.PanicException  # derives from BaseException
    try:
        with _one_at_a_time, _held_stderr():
            return read()
    except panic:
        raise UnreadableTable("its parts contradict each other") from None
    except Exception as error:  # noqa: BLE001 - polars raises errors of many kinds
        raise UnreadableTable((str(error).splitlines() or [type(error).__name__])[0][:200]) from None


@contextmanager
def _held_stderr() -> Iterator[None]:
    """Hold back what is written to standard error, and drop it if an error ends the block: a panic writes there."""
    try:
        kept = os.dup(STDERR)
    except OSError:  # standard error is closed
        yield
        return
    with tempfile.TemporaryFile() as held:
        try:
            os.dup2(held.fileno(), STDERR)
            yield
        except BaseException:
            held.truncate(0)
            raise
        finally:
            os.dup2(kept, STDERR)
            os.close(kept)
            held.seek(0)
            with suppress(OSError):
                os.write(STDERR, held.read())
