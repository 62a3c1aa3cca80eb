"""Seeds and random generators: `reset(seed=s)` gives env i the seed `s + i`, as Gymnasium's vector envs do, on every
backend.

With `s + i`, two runs with close seeds share the streams of most of their envs. A run therefore passes `ChildSeeds`:
children of a `SeedSequence` are never neighbours of one another.

An env that draws from the global generators, `random` and `numpy.random`, would depend on which envs share its worker.
Where its code does so, the generators are swapped around each of its calls, as if each env had a process to itself:
0.3 us for NumPy (a pointer), 14 us for `random` (625 words).
"""

from __future__ import annotations

import dis
import inspect
import random
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.engine.snapshot import wrapper_chain
from rookery.engine.value_tree import copied_state, python_random_in, python_random_out
from rookery.errors import OptionError
from rookery.once import new_lock


def child_seed(root: int, *key: int) -> int:
    """The seed of a descendant of `root`: 31 bits, because many envs pass their seed to C code as an int."""
    return int(np.random.SeedSequence(root, spawn_key=key).generate_state(1, np.uint32)[0] >> 1)


class ChildSeeds(list[int]):
    """One seed for each of `count` envs: the children of `root`, from which restarted envs get further seeds. `first`
    is the number of the first env, where others are in other processes."""

    def __init__(self, root: int, count: int, first: int = 0) -> None:
        super().__init__(child_seed(root, i) for i in range(first, first + count))
        self.root = root

    @classmethod
    def of(cls, root: int, envs: Any, rank: int = 0) -> ChildSeeds:
        """For the envs of an engine, whose rows may be several agents of one env each; `rank` is that of its process
        among those with as many envs."""
        count = getattr(envs, "num_worlds", envs.num_envs)
        return cls(root, count, rank * count)


def root_of(seed: Any) -> int | None:
    """The seed that restarted envs derive theirs from: an integer, or the root of `ChildSeeds`."""
    if isinstance(seed, (int, np.integer)):
        return int(seed)
    return seed.root if isinstance(seed, ChildSeeds) else None


def env_seeds(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """What each env's `reset(seed=...)` receives: seed + i, or its own entry of a list, unchanged."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, (int, np.integer)):
        if seed < 0:
            raise OptionError(f"seed should be a non-negative integer, got {seed}")
        return [int(seed) + i for i in range(num_envs)]
    if isinstance(seed, str) or not isinstance(seed, Iterable):
        raise OptionError(f"seed should be a non-negative integer, a list with one for each env, or None, got {seed!r}")
    seeds = list(seed)
    if len(seeds) != num_envs:
        raise OptionError(f"seed as a list should have one entry for each of the {num_envs} envs, got {len(seeds)}")
    for i, s in enumerate(seeds):
        if s is not None and not (isinstance(s, (int, np.integer)) and s >= 0):
            raise OptionError(f"seed[{i}] should be a non-negative integer or None, got {s!r}")
    return [None if s is None else int(s) for s in seeds]


def fresh_entropy() -> int:
    """A root seed for envs without one, so that they differ from each other and between runs."""
    return int(np.random.SeedSequence().generate_state(1, np.uint32)[0])


# --- global generators ------------------------------------------------------------------------------------------------

_PYTHON = random._inst  # the generators behind the module-level functions
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
