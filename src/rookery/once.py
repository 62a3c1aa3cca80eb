"""Things that a process makes once, however many threads need them first at the same moment.

`functools.cache` may call its function in two threads at once, and keeps one of the results. If it is compiled code,
the other thread's is freed while it runs; of handles, symbols and threads there are two. Here one lock serves the whole
process: while a thread makes something, others that need something new wait; what exists is found without the lock. One
lock cannot be taken in two orders, and a thread that holds it may make other things on the way. (LLVM and Numba have
locks around each of their calls; this one keeps a check and what follows from it together.)

Not for a function that modules call while they are imported: the thread that holds the lock may wait for that import.
Not for a function that runs a user's program either: `exclusive` has a lock of its own for each function.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import update_wrapper, wraps
from typing import Any, Generic, ParamSpec, TypeVar

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")

_making = threading.RLock()


def make_once(made: dict[Any, Value], key: Any, make: Callable[[], Value]) -> Value:
    """`made[key]`, after it was filled by `make`, if it was missing. What raises is not kept.

    >>> made = {}
    >>> make_once(made, "a", lambda: 1), make_once(made, "a", lambda: 2)
    (1, 1)
    """
    if key not in made:
        with _making:
            if key not in made:
                made[key] = make()
    return made[key]


class Once(Generic[Arguments, Value]):
    """A function whose results are kept, one for each set of arguments; see `once`."""

    def __init__(self, function: Callable[Arguments, Value]) -> None:
        self._function = function
        self._made: dict[Any, Value] = {}
        update_wrapper(self, function)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        return make_once(self._made, (args, *kwargs.items()), lambda: self._function(*args, **kwargs))

    def cache_clear(self) -> None:
        """Forget all results."""
        self._made = {}


def once(function: Callable[Arguments, Value]) -> Once[Arguments, Value]:
    """Like `functools.cache`, but called once for its arguments, however many threads come at the same moment.

    >>> @once
    ... def twice(number):
    ...     print("computed")
    ...     return 2 * number
    >>> twice(3), twice(3)
    computed
    (6, 6)
    """
    return Once(function)


def exclusive(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Let one thread at a time call this function. It may call itself."""
    lock = new_lock()

    @wraps(function)
    def alone(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        with lock:
            return function(*args, **kwargs)

    return alone


def new_lock() -> Any:
    """A re-entrant lock that is free in a forked child: the thread that held it may not be there."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):  # only where processes can fork
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


if hasattr(os, "register_at_fork"):
    # A fork waits until what is being made is complete: a child could not finish another thread's work. `logging` does
    # so too. (Starting another program does not call these functions.)
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)
