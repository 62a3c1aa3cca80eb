"""`numba.njit`, with what was compiled kept where only this user can write: Numba unpickles what it finds there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba

from rookery.user_dirs import cache_folder


def cached_njit(**options: Any) -> Callable[[Any], Any]:
    """A decorator. Where there is no safe folder, functions are compiled anew in each process."""
    return _cached(numba.njit, options)


def cached_cfunc(signature: Any, **options: Any) -> Callable[[Any], Any]:
    """The same for `numba.cfunc`: a function that other compiled code calls by its address."""
    return _cached(partial(numba.cfunc, signature), options)


def _cached(compile_with: Callable[..., Any], options: dict[str, Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        folder = cache_folder("numba")
        if folder is None:
            return compile_with(**options)(function)
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder.absolute())
        try:
            return compile_with(cache=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate
