"""Global random state, one per env: `random` and `numpy.random` as if each env had a process to itself.

An env that draws from the global generators would depend on which envs share its worker. Where its code does so, the
generators are swapped around each of its calls: 0.3 us for NumPy (a pointer), 14 us for `random` (625 words).
"""

from __future__ import annotations

import dis
import inspect
import random
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.engine.env_state.snapshot import wrapper_chain
from rookery.engine.env_state.value_tree import copied_state, python_random_in, python_random_out
from rookery.once import new_lock

_PYTHON = random._inst  # type: ignore[attr-defined]  # the generators behind the module-level functions
_NUMPY: Any = np.random.mtrand._rand
_swap: Any = np.random.set_bit_generator  # type: ignore[attr-defined]
_swapping = new_lock()
_KNOWN_CLEAN = {"gymnasium", "numpy", "builtins", "abc", "typing", "rookery", "random", "math"}


class GlobalRandom:
    """One env's private copy of the global generators."""

    def __init__(self, seed: int, python: bool, numpy: bool) -> None:
        self._python, self._numpy = python, numpy
        self.seed(seed)

    def seed(self, seed: int) -> None:
        self._state = random.Random(seed).getstate() if self._python else None
        if self._numpy:
            self._bits = np.random.MT19937()
            self._bits._legacy_seeding(seed)  # the state that `numpy.random.seed(seed)` sets

    def enter(self) -> None:
        """Put this env's state in place of the process's."""
        if self._python:
            random.setstate(self._state)  # type: ignore[arg-type]
        if self._numpy:
            _swap(self._bits)

    def leave(self) -> None:
        """Store the state that the env leaves; NumPy's generator was changed in place."""
        if self._python:
            self._state = random.getstate()

    def state(self) -> dict[str, Any]:
        """Both generators as arrays and plain values."""
        return {
            "python": None if self._state is None else python_random_out(self._state),
            "numpy": copied_state(self._bits.state) if self._numpy else None,
        }

    def load(self, state: dict[str, Any]) -> None:
        if self._python and state["python"] is not None:
            self._state = python_random_in(state["python"])
        if self._numpy and state["numpy"] is not None:
            self._bits.state = copied_state(state["numpy"])


class PreserveRandomState:
    """Restores the caller's global generators at the end of the `with` block. One thread at a time may be in one: else
    an env would draw from the generators of another thread's."""

    def __enter__(self) -> None:
        _swapping.acquire()
        self._python, self._numpy = random.getstate(), _NUMPY._bit_generator

    def __exit__(self, *_: object) -> None:
        try:
            random.setstate(self._python)
            _swap(self._numpy)
        finally:
            _swapping.release()


def uses_global_random(env: gym.Env) -> tuple[bool, bool]:
    """Whether an env's code, or what it calls by name, draws from `random` / `numpy.random`.

    Read from the bytecode of its classes and wrappers and of the functions they refer to. Code that hides the call
    (C extensions, names looked up at run time) is not found: set `isolate_random=True` for such an env.
    """
    python = numpy = False
    for function in _functions(env):
        for code in _nested(function.__code__):
            for item in _referenced(code, function.__globals__):
                python |= item is random or getattr(item, "__self__", None) is _PYTHON
                numpy |= item is np.random or getattr(item, "__self__", None) is _NUMPY
    return python, numpy


def _functions(env: gym.Env) -> Iterator[FunctionType]:
    """The functions an env can reach by name, outside the libraries known not to draw from global state."""
    waiting: list[Any] = [cls for layer in wrapper_chain(env) for cls in type(layer).__mro__]
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen or (getattr(item, "__module__", None) or "").split(".")[0] in _KNOWN_CLEAN:
            continue
        seen.add(id(item))
        if isinstance(item, type):
            waiting += [member for member in vars(item).values()]
        elif isinstance(item, (staticmethod, classmethod, property)):
            waiting.append(item.fget if isinstance(item, property) else item.__func__)
        elif callable(item) and isinstance(function := inspect.unwrap(item), FunctionType):
            yield function
            for code in _nested(function.__code__):
                waiting += [found for found in _referenced(code, function.__globals__) if callable(found)]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _referenced(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """What a function's globals and local imports resolve to, following attributes of modules (`np.random.rand`)."""
    at: Any = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") and isinstance(at, ModuleType):
            at = getattr(at, step.argval, None)
            continue
        if at is not None:
            yield at  # the end of a chain: `np.random.default_rng` is harmless, `np.random` on the way to it too
        at = None
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            at = names.get(step.argval)
        elif step.opname == "IMPORT_NAME":
            at = {"random": random, "numpy.random": np.random, "numpy": np}.get(step.argval)
