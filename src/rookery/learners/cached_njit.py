"""Compiled code: `numba.njit`, with what was compiled kept where only this user can write, as Numba unpickles what it
finds there; and memory at an address as an array, since threads that run a plan know addresses only."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numba
from numba import types
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.runtime import rtsys
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from rookery.console import tell_compiler
from rookery.once import exclusive
from rookery.part_compiler import part
from rookery.user_dirs import cache_folder


def cached_njit(**options: Any) -> Callable[[Any], Any]:
    """A decorator. Where there is no safe folder, functions are compiled again in each process."""
    return lambda function: _with_cache(numba.njit(**options)(function))


def cached_cfunc(signature: Any, **options: Any) -> Callable[[Any], Any]:
    """The same for `numba.cfunc`: a function that other compiled code calls by its address."""

    def compile_now(function: Any) -> Any:
        made = _with_cache(CFunc(function, normalize_signature(signature), locals={}, options=options))
        made.compile()
        return made

    return compile_now


@exclusive  # Numba has one folder for the whole process
def _with_cache(function: Any) -> Any:
    folder = cache_folder("numba")
    if folder is None:
        return function
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder.absolute() / _source_version())
    try:
        function.enable_caching()
    finally:
        numba.config.CACHE_DIR = before
    function._cache.__class__ = _QuickCache
    return function


class _QuickCache(FunctionCache):
    """Numba's cache, which tells what is compiled. Before it reads code that was compiled long ago, it does not import
    all that Numba can compile, SciPy among it: half a second of a run's start. What is compiled imports that later."""

    _begun: ClassVar[list[float]] = []  # when each function was that is being compiled for another

    @property
    def _title(self) -> str:
        return f"the learner's {self._py_func.__name__.lstrip('_')}"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target_context)
        if found is None:
            self._begun.append(time.monotonic())
            tell_compiler(self._title)
        return found

    def save_overload(self, signature: Any, made: Any) -> None:
        super().save_overload(signature, made)
        began = self._begun.pop()
        if not self._begun:
            tell_compiler(self._title, time.monotonic() - began)


@lru_cache
def _source_version() -> str:
    """A folder's name for these source files. Numba notices a change of the file of a function, but not of the files
    of functions that it calls: their layouts of memory would no longer agree."""
    package = Path(__file__).parents[1]
    files = [
        package / "atomics.py",
        package / "part_compiler.py",
        *(package / "learners").rglob("*.py"),
        *(package / "kernel").glob("*.py"),
    ]
    facts = sorted((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


compiled = cached_njit(nogil=True, error_model="numpy")
inner = part(error_model="numpy")  # for those that only compiled functions call


def pointer_to(kind: Any) -> Any:
    """A function of an address: the pointer to numbers of this kind."""

    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return intrinsic(pointer)


_float32, _float64, _int64, _bool = (
    pointer_to(kind) for kind in (types.float32, types.float64, types.int64, types.boolean)
)


@inner
def float_array(address: int, shape: Any) -> Any:
    """float32 numbers."""
    return numba.carray(_float32(address), shape)


@inner
def double_array(address: int, shape: Any) -> Any:
    """float64 numbers."""
    return numba.carray(_float64(address), shape)


@inner
def int_array(address: int, shape: Any) -> Any:
    """int64 numbers."""
    return numba.carray(_int64(address), shape)


@inner
def bool_array(address: int, shape: Any) -> Any:
    """Flags of one byte."""
    return numba.carray(_bool(address), shape)
