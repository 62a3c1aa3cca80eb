"""Compiles a function together with all functions that it calls.

A world's functions call helpers, in their own file or imported by name. Numba needs each of them compiled before it
compiles a call to it. Here they are found and compiled, so that a world's author need not decorate them.
"""

from __future__ import annotations

import dis
import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from rookery.errors import WorldError
from rookery.kernel import random
from rookery.kernel.declarations import whole

Function = Callable[..., Any]
Jit = Callable[[FunctionType], Any]


def as_double(number: Any) -> Any:
    """`float` as in Python. In Numba, `float` of a single-precision number stays single-precision."""
    return np.float64(number)


def as_integer(number: Any) -> Any:
    """What `whole` is in compiled code."""
    return np.int64(number)


# Functions that compiled code calls instead of the original ones.
REPLACED: dict[Any, Any] = {
    float: as_double,
    whole: as_integer,
    random.refuse_empty_range: random.mark_empty_range,
}


def translate(function: Function, jit: Jit, done: dict[Function, Any] | None = None) -> Any:
    """`jit(function)`, after the same was done to every plain function it calls by name.

    >>> def double(x): return 2 * x
    >>> def four_times(x): return double(double(x))
    >>> names = []
    >>> translate(four_times, lambda f: names.append(f.__name__) or f)(3), names
    (12, ['double', 'four_times'])
    """
    done = {} if done is None else done
    if function not in done:
        assert isinstance(function, FunctionType)
        done[function] = None  # in progress
        own = {name: _ready(value, jit, done) for name, value in used_globals(function).items()}
        cells = {name: _ready(_compiled_instead(value), jit, done) for name, value in closed_over(function).items()}
        done[function] = jit(rebound(function, own, cells))
    if done[function] is None:
        raise WorldError(f"{function.__qualname__} calls itself, which compiled code cannot do{line_of(function)}")
    return done[function]


def rebound(function: Any, names: dict[str, Any], cells: dict[str, Any]) -> FunctionType:
    """The same code, with these globals and closure variables."""
    scope = {**names, "__name__": function.__module__, "__builtins__": __builtins__}
    closure = tuple(map(CellType, cells.values()))
    copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


def reachable(function: Any, seen: dict[FunctionType, None] | None = None) -> dict[FunctionType, None]:
    """`function` and all plain functions that it calls by name, directly or indirectly, as keys in the order in which
    they are found."""
    seen = {} if seen is None else seen
    if function not in seen:
        seen[function] = None
        for value in (*used_globals(function).values(), *map(_compiled_instead, closed_over(function).values())):
            if isinstance(value, FunctionType):
                reachable(value, seen)
    return seen


def called_once(functions: Iterable[FunctionType]) -> set[CodeType]:
    """The code of those that these functions call at a single place: to inline them makes nothing longer. With calls,
    which pass all arrays of all tables, a step of a market took a sixth more time.

    >>> def one(x): return x
    >>> def two(x): return x
    >>> def all_three(x): return one(two(two(x)))
    >>> [code.co_name for code in called_once([all_three, one, two])]
    ['one']
    """
    places: Counter[CodeType] = Counter()
    for function in functions:
        known = used_globals(function)
        called = (known.get(name) for name in _reads(function.__code__))
        places.update(value.__code__ for value in called if isinstance(value, FunctionType))
    return {code for code, count in places.items() if count == 1}


def used_globals(function: Any) -> dict[str, Any]:
    """The global names that a function's code reads, with their values in compiled code."""
    known = {"float": float, **function.__globals__}
    return {name: _compiled_instead(known[name]) for name in read_names(function) if name in known}


def _compiled_instead(value: Any) -> Any:
    """What compiled code uses in place of a value. Of a function that its author has decorated with `njit`, that is the
    function itself: it is compiled like the others, and checked if they are."""
    inner = getattr(value, "py_func", None)
    if isinstance(inner, FunctionType) and not inner.__module__.startswith("rookery."):
        return inner
    return REPLACED.get(value, value) if isinstance(value, (FunctionType, type)) else value


def read_names(function: Any) -> tuple[str, ...]:
    """The global names that a function's code reads."""
    return _read_names(function.__code__)


@lru_cache(maxsize=10_000)  # every engine asks for hundreds, which takes longer than all else that it does
def _read_names(code: CodeType) -> tuple[str, ...]:
    return tuple(sorted(set(_reads(code))))


def _reads(code: CodeType) -> list[str]:
    """The global names, once for each place where they are read."""
    steps = (step for part in codes(code) for step in dis.get_instructions(part))
    return [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]


def closed_over(function: Any) -> dict[str, Any]:
    """The closure variables of a function, with their values."""
    cells = function.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)}


def defined(signature: str, lines: Sequence[str], **known: Any) -> Function:
    """The function `def signature` with these lines, which are made of names that were checked before. `known` are the
    names that it uses beside its arguments; `__name__` should be the caller's."""
    name = signature.partition("(")[0]
    exec("\n".join([f"def {signature}:", *(lines or ["    pass"])]), known)  # noqa: S102 - see above
    return known[name]


def for_each_number(shapes: Mapping[str, tuple[int, ...]], statement: Callable[[str, str], str]) -> list[str]:
    """Lines that do something with every number of some fields: `statement(field, "field[k0, k1]")`.

    >>> for_each_number({"x": (), "place": (2,)}, lambda name, at: f"record.{at} = 0")
    ['    record.x = 0', '    for k0 in range(2):', '        record.place[k0] = 0']
    """
    lines = []
    for name, shape in shapes.items():
        index = f"[{', '.join(f'k{d}' for d in range(len(shape)))}]" if shape else ""
        lines += [f"{'    ' * (d + 1)}for k{d} in range({size}):" for d, size in enumerate(shape)]
        lines.append(f"{'    ' * (len(shape) + 1)}{statement(name, name + index)}")
    return lines


def line_of(function: Any, line: int | None = None) -> str:
    """A line of a function's file as tracebacks show it; by default the function's first line."""
    file, line = function.__code__.co_filename, line or function.__code__.co_firstlineno
    return f'\n  File "{file}", line {line}\n    {linecache.getline(file, line).strip()}'


def _ready(value: Any, jit: Jit, done: dict[Function, Any]) -> Any:
    return translate(value, jit, done) if isinstance(value, FunctionType) else value


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)
