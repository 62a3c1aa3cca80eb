"""Names in a world's code that compiled code cannot use, each with what to write instead.

They are found in the bytecode before anything is compiled: the compiler's own messages name types of its own.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
import random
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from rookery.kernel.translate import closed_over, codes

_LOOP = "compiled code has no {}; write a loop, or a function of your own"
_NO_TEXTS = "compiled code makes no texts; use numbers, such as a constant LEFT = 0 at the top of the file"
_NEW_ARRAY = "{} makes a new array; use a field of `scratch`, or a constant at the top of the file"
_INSTEAD: tuple[tuple[Any, str], ...] = (
    (math.fsum, "compiled code has no {}; add the numbers in a loop"),
    (math.prod, "compiled code has no {}; multiply the numbers in a loop"),
    (math.dist, "compiled code has no {}; write math.sqrt(dx * dx + dy * dy)"),
    (np.clip, "compiled code has no {}; write min(max(x, low), high)"),
    (np.where, "compiled code has no {}; write `a if condition else b`"),
    (memoryview, "compiled code has no {}; index the array itself, as in state.x[0]"),
    (np.linalg.norm, "compiled code has no {}; write math.sqrt(x * x + y * y), or a loop"),
    (np.max, "compiled code has no {}; write max(x)"),
    (np.min, "compiled code has no {}; write min(x)"),
    (reversed, "compiled code has no {}; write range(last, -1, -1)"),
    (getattr, "compiled code has no {}; write the name, as in state.x"),
    (setattr, "compiled code has no {}; write the name, as in state.x = 1.0"),
    (str, _NO_TEXTS),
    (repr, _NO_TEXTS),
    *((function, _LOOP) for function in (any, all, map, sorted, np.inner, np.outer, np.cross, np.matmul, np.einsum)),
    *(
        (getattr(np, name), _LOOP)
        for name in ("median", "percentile", "quantile", "ptp", "argsort", "count_nonzero", "nonzero", "interp")
    ),
    *((getattr(np.linalg, name), _LOOP) for name in np.linalg.__all__),
    *(
        (getattr(np, name), _NEW_ARRAY)
        for name in (
            "array", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "arange",
            "linspace", "concatenate", "stack", "copy", "cumsum", "diff", "sort", "roll", "append", "hstack", "vstack",
            "tile", "repeat", "eye", "identity", "full_like", "flip", "unique",
        )
    ),
)  # fmt: skip
_CONTAINERS = (list, dict, set, bytearray, memoryview)
_MAKES = "compiled code cannot make a {}; use a tuple, or an array field of `state` or `scratch`"
_GENERATORS = (random.Random, np.random.RandomState)
_RANDOM = "draw from random or numpy.random, whose numbers depend on threads; use rookery.kernel.random"
_RAISE = "compiled code cannot raise an exception; return terminated=True, or write NaN, which is reported"
_CATCH = (
    "compiled code raises no exceptions; test before, as in `x / y if y != 0.0 else 0.0`, instead of try and except"
)
_WITH = "compiled code has no `with`; leave it out"
_GLOBAL = "compiled code cannot change a global name; keep what changes in a field of `state`"
_PRINT = "print; run it as plain Python (plain=True) to debug it"
_INNER = "compiled code has no functions inside functions; write it at the top of the file"
_OPERATIONS = {
    "MAKE_FUNCTION": _INNER,  # Numba would inline it, and then drop what the function around it writes to arrays
    "RAISE_VARARGS": _RAISE,
    "LOAD_ASSERTION_ERROR": _RAISE,
    "CHECK_EXC_MATCH": _CATCH,
    "BEFORE_WITH": _WITH,
    "LOAD_SPECIAL": _WITH,  # since Python 3.14
    "STORE_GLOBAL": _GLOBAL,
    "DELETE_GLOBAL": _GLOBAL,
    "IMPORT_NAME": "compiled code cannot import; write the import at the top of the file",
    "DELETE_FAST": "compiled code cannot delete a name; leave out `del`",
    "YIELD_VALUE": "compiled code cannot make a generator; write a `for` loop",
    "BUILD_LIST": _MAKES.format("list"),
    "BUILD_MAP": _MAKES.format("dictionary"),
    "BUILD_CONST_KEY_MAP": _MAKES.format("dictionary"),
    "BUILD_SET": _MAKES.format("set"),
    "BUILD_STRING": _NO_TEXTS,
    "FORMAT_VALUE": _NO_TEXTS,
    "FORMAT_SIMPLE": _NO_TEXTS,
    "FORMAT_WITH_SPEC": _NO_TEXTS,
}
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")


def unsupported(function: FunctionType) -> tuple[str, int | None] | None:
    """What a function uses that compiled code cannot, in words, and its line; None if there is nothing."""
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if isinstance(value, _CONTAINERS):
            return f"{function.__name__} has a {type(value).__name__} as a default; use a tuple or a NumPy array", None
    if function.__code__.co_flags & inspect.CO_VARKEYWORDS:
        return f"{function.__name__} takes any keyword arguments (**); name each of them", None
    found = []
    for instruction, value, name in _with_values(function):
        why = _why(instruction, value, name)
        if why is not None:
            found.append((why, instruction.positions.lineno if instruction.positions else None))
    # A text is often that of an exception, and a comprehension is a function: what they are for is named first.
    return min(found, key=lambda each: each[0] in (_NO_TEXTS, _INNER), default=None)


def _with_values(function: FunctionType) -> Iterator[tuple[dis.Instruction, Any, str]]:
    """The instructions, each with the value of the name or of the module's attribute that it reads, and its name; those
    of functions inside it too, which comprehensions are."""
    known = {**vars(builtins), **function.__globals__, **closed_over(function)}
    value, name = None, ""
    for instruction in (step for code in codes(function.__code__) for step in dis.get_instructions(code)):
        if instruction.opname in _LOADS:
            name = str(instruction.argval)
            value = known.get(name)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            name = f"{name}.{instruction.argval}"
            value = getattr(value, str(instruction.argval), None)
        elif instruction.opname == "LOAD_CONST" and value is float and isinstance(instruction.argval, str):
            value, name = instruction.argval, f"float({instruction.argval!r})"
        else:
            value, name = None, ""
        yield instruction, value, name


def _why(instruction: dis.Instruction, value: Any, name: str) -> str | None:
    if instruction.opname in _OPERATIONS:
        return _OPERATIONS[instruction.opname]
    if instruction.opname == "LOAD_CONST" and isinstance(instruction.argval, frozenset):
        return _MAKES.format("set")
    if value is None:
        return None
    if value is print:
        return f"compiled code cannot {_PRINT}"
    if value is random or value is np.random or isinstance(getattr(value, "__self__", None), _GENERATORS):
        return f"compiled code cannot {_RANDOM}"
    if isinstance(value, str) and name.startswith("float("):
        return f"compiled code has no {name}; write math.inf, math.nan or a number"
    if isinstance(value, _CONTAINERS):
        kind, array = type(value).__name__, " (np.array(...))" if isinstance(value, list) else ""
        return (
            f"{name} is a {kind}; a constant must be a number, a tuple or a NumPy array{array} at the top of the file"
        )
    return next((instead.format(name) for known, instead in _INSTEAD if value is known), None)
