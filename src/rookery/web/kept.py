"""What the dashboard keeps of files and folders that somebody looks at."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by their keys, of which those are forgotten that were not used for longest. Threads may share it; nothing
    waits for another one's file."""

    def __init__(self, most: int, size: Callable[[V], int] = lambda value: 1) -> None:
        """The sizes of all values add up to `most`, or one is left."""
        self._most, self._size, self._sum = most, size, 0
        self._values: OrderedDict[K, tuple[V, Any]] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, stamp: Any = None) -> V | None:
        """The value that was kept with this stamp, if any was."""
        with self._lock:
            value, known = self._values.get(key, (None, stamp))
            if value is not None:
                self._values.move_to_end(key)
            return value if known == stamp else None

    def put(self, key: K, value: V, stamp: Any = None) -> V:
        """Keep a value in place of another one."""
        with self._lock:
            if key in self._values:
                self._sum -= self._size(self._values.pop(key)[0])
            self._values[key] = value, stamp
            self._sum += self._size(value)
            while len(self._values) > 1 and self._sum > self._most:
                self._sum -= self._size(self._values.popitem(last=False)[1][0])
        return value

    def of(self, key: K, make: Callable[[], V], stamp: Any = None) -> V:
        """The value of a key, which is made again if its stamp has changed. Of two threads that make one at the same
        time, both get the first."""
        known = self.get(key, stamp)
        if known is None:
            made = make()
            with self._lock:
                known = self.get(key, stamp)
                return self.put(key, made, stamp) if known is None else known
        return known
