"""Numba's compiler for functions that only other compiled code calls, and for object code. Needs Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.registry import CPUDispatcher


class _NoEnvironments:
    """The code generator for what is not executed: it has no globals of Python to set."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """There is no memory for it."""


class _PartLibrary(JITCodeLibrary):
    """The code of one function, for linking."""

    @property
    def codegen(self) -> _NoEnvironments:
        return _NoEnvironments(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """Null, as for a function without a wrapper for Python: there is no machine code."""
        self._ensure_finalized()
        return 0

    def _optimize_final_module(self) -> None:
        """The outermost function's does it for all."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _EntryLibrary(_PartLibrary):
    """The code of the outermost function: with all its parts, optimised."""

    _optimize_final_module = JITCodeLibrary._optimize_final_module


class PartCompiler(CompilerBase):
    """Numba's compiler, up to code that can be linked into another function: for functions that only others call.

    Numba optimises each function on its own and makes machine code of it, and does both again for every function that
    it is inlined into. Only the outermost function has use for that: compiling CartPole takes a quarter less time.
    """

    library: ClassVar[type[JITCodeLibrary]] = _PartLibrary

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.state.library = self.library(self.state.targetctx.codegen(), "part")

    def define_pipelines(self) -> list[Any]:
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class EntryCompiler(PartCompiler):
    """For the outermost function, of which object code is made: the code generator then runs once. Numba alone would
    also make machine code in this process: a tenth of what compiling hockey takes."""

    library = _EntryLibrary


def part(**options: Any) -> Callable[[Any], Any]:
    """A decorator for a function that Python does not call: `numba.njit` without the wrappers for that, and without
    machine code. What calls it is kept on disk with all its parts."""
    options = {"pipeline_class": PartCompiler, **options}
    decorate = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)

    def decorated(function: Any) -> Any:
        made = decorate(function)
        if isinstance(made, CPUDispatcher):  # Numba may be switched off, to debug
            made.__class__ = _Part
        return made

    return decorated


class _Part(CPUDispatcher):
    def __call__(self, *arguments: Any) -> Any:
        """Python would jump to address 0."""
        raise TypeError(f"{self.py_func.__qualname__} is a part of compiled code, and cannot be called from Python")
