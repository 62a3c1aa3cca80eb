"""Members on the cores of a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Team:
    """Calls a function for several items, each on one of some threads. What it does to an item depends on that item
    alone, so that timing changes no number."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, "rookery-population") if threads > 1 else None

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R | Exception]:
        """The results in order; an error takes the place of its result."""

        def call(item: T) -> R | Exception:
            try:
                return function(item)
            except Exception as error:  # noqa: BLE001 - the caller decides what becomes of the item
                return error

        if self._pool is None or len(items) < 2:
            return [call(item) for item in items]
        return list(self._pool.map(call, items))

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
