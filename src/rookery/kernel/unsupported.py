"""Names in a world's code that compiled code cannot use, each with what to write instead.

They are found in the bytecode before anything is compiled: the compiler's own messages name types of its own.
"""

from __future__ import annotations

import builtins
import dis
import math
import random
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from rookery.kernel.translate import closed_over

_NEW_ARRAY = "{} makes a new array; use a field of `scratch`, or a constant at the top of the file"
_INSTEAD: tuple[tuple[Any, str], ...] = (
    (math.fsum, "compiled code has no {}; add the numbers in a loop"),
    (math.prod, "compiled code has no {}; multiply the numbers in a loop"),
    (math.dist, "compiled code has no {}; write math.sqrt(dx * dx + dy * dy)"),
    (np.clip, "compiled code has no {}; write min(max(x, low), high)"),
    (np.where, "compiled code has no {}; write `a if condition else b`"),
    (memoryview, "compiled code has no {}; index the array itself, as in state.x[0]"),
    *(
        (getattr(np, name), _NEW_ARRAY)
        for name in (
            "array", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "arange",
            "linspace", "concatenate", "stack", "copy", "cumsum", "diff", "sort", "roll",
        )
    ),
)  # fmt: skip
_CONTAINERS = (list, dict, set, bytearray, memoryview)
_BUILT = {"BUILD_LIST": "list", "BUILD_MAP": "dictionary", "BUILD_SET": "set"}
_GENERATORS = (random.Random, np.random.RandomState)
_RANDOM = "draw from random or numpy.random, whose numbers depend on threads; use rookery.kernel.random"
_RAISE = "raise an exception; return terminated=True, or write NaN, which is reported"
_PRINT = "print; run it as plain Python (plain=True) to debug it"
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")


def unsupported(function: FunctionType) -> tuple[str, int | None] | None:
    """What a function uses that compiled code cannot, in words, and its line; None if there is nothing."""
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if isinstance(value, _CONTAINERS):
            return f"{function.__name__} has a {type(value).__name__} as a default; use a tuple or a NumPy array", None
    for instruction, value, name in _with_values(function):
        why = _why(instruction, value, name)
        if why is not None:
            return why, instruction.positions.lineno if instruction.positions else None
    return None


def _with_values(function: FunctionType) -> Iterator[tuple[dis.Instruction, Any, str]]:
    """The instructions, each with the value of the name or of the module's attribute that it reads, and its name."""
    known = {**vars(builtins), **function.__globals__, **closed_over(function)}
    value, name = None, ""
    for instruction in dis.get_instructions(function):
        if instruction.opname in _LOADS:
            name = str(instruction.argval)
            value = known.get(name)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            name = f"{name}.{instruction.argval}"
            value = getattr(value, str(instruction.argval), None)
        else:
            value, name = None, ""
        yield instruction, value, name


def _why(instruction: dis.Instruction, value: Any, name: str) -> str | None:
    if instruction.opname in ("RAISE_VARARGS", "LOAD_ASSERTION_ERROR"):
        return f"compiled code cannot {_RAISE}"
    if instruction.opname in _BUILT:
        kind = _BUILT[instruction.opname]
        return f"compiled code cannot make a {kind}; use a tuple, or an array field of `state` or `scratch`"
    if value is None:
        return None
    if value is print:
        return f"compiled code cannot {_PRINT}"
    if value is random or value is np.random or isinstance(getattr(value, "__self__", None), _GENERATORS):
        return f"compiled code cannot {_RANDOM}"
    if isinstance(value, _CONTAINERS):
        kind, array = type(value).__name__, " (np.array(...))" if isinstance(value, list) else ""
        return (
            f"{name} is a {kind}; a constant must be a number, a tuple or a NumPy array{array} at the top of the file"
        )
    return next((instead.format(name) for known, instead in _INSTEAD if value is known), None)
