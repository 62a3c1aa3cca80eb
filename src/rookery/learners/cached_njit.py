"""`numba.njit`, with what was compiled kept where only this user can write: Numba unpickles what it finds there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from rookery.user_dirs import cache_folder


def cached_njit(**options: Any) -> Callable[[Any], Any]:
    """A decorator. Where there is no safe folder, functions are compiled anew in each process."""

    def decorate(function: Any) -> Any:
        folder = cache_folder("numba")
        if folder is None:
            return numba.njit(**options)(function)
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder.absolute())
        try:
            return numba.njit(cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate
