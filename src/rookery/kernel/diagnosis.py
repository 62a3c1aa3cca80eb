"""Errors of a world's code, explained in terms of the world, with the line they refer to.

Much that compiled code cannot use is found in the bytecode before anything is compiled, with what to write instead: the
compiler's own messages name types of its own.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import math
import operator
import os
import random
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from rookery.errors import WorldError
from rookery.kernel.env_loop import functions_of
from rookery.kernel.plain_values import READ_ONLY
from rookery.kernel.step_values import truncates
from rookery.kernel.translate import closed_over, codes, line_of
from rookery.kernel.world import KernelWorld

_PLACE = re.compile(r'(?:During: .* at |Raised from )(.+) \((\d+)\)|File "(.+)", line (\d+):')
_OF_MODULE = re.compile(r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'")
_NO_CONSTANT = re.compile(r"Untyped global name '(\w+)': Cannot determine Numba type of <class '([\w.]+)'>")
_NO_NUMPY = re.compile(r"unsupported NumPy function '([\w.]+)'")
_ARRAY_FIELD = re.compile(r"Cannot cast .+ to nestedarray")
_UNKNOWN = re.compile(r"No implementation of function Function\(<(?:built-in )?\w+ '?([\w.]+)")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_NEEDS_MEMORY = (
    "something in it allocates memory (a list, a string, a new array); compute with one number at a time, and keep "
    "arrays in fields of `scratch`"
)
_OWN_FUNCTION = "write it as a function of your own"

_OUR_ARRAYS = re.compile(r"\bPlain(Vector|Rows|Record)\b|\bmemoryview\b")
_NUMBER_BY_NUMBER = "arrays are computed with one number at a time, as in state.x[0] * 2, and in loops"
_ONE_BY_ONE = "arrays are written one number at a time, as in out[0] = ..."
# Modules with functions that the author of a world has not written.
OURS = (
    "rookery.kernel.random",
    "rookery.kernel.translate",
    "rookery.kernel.two_players",
    "rookery.kernel.world",
    "rookery.worlds.mujoco.step_functions",
    "rookery.worlds.mujoco.gpu_functions",
    "rookery.worlds.mujoco.physics_memory",
    "rookery.worlds.mujoco.physics_memory",
)


def error_in_world(world: KernelWorld, error: Exception, where: str = "") -> WorldError:
    """A WorldError for what a world's code raised in plain Python, with its line."""
    why: Any = _ONE_BY_ONE if "bytes-like object" in str(error) else error
    if isinstance(error, (TypeError, AttributeError)) and _OUR_ARRAYS.search(str(error)):
        why = _NUMBER_BY_NUMBER
    made = WorldError(f"{world.name} fails: {where}{why}{line_raised(world, error)}")
    made.__cause__ = error
    return made


@contextmanager
def explain_compile_errors(world: KernelWorld) -> Iterator[None]:
    """Turn the compiler's errors into a WorldError that points to the world's own code."""
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    try:
        yield
    except (NumbaError, UnsupportedBytecodeError, RuntimeError, KeyError) as error:
        text = _ESCAPES.sub("", str(error))
        raise WorldError(f"{world.name} cannot be compiled: {_explained(world, text)}") from error


def refuse_unsupported(world: KernelWorld) -> None:
    """Refuse code that cannot be compiled, or that does not work in a kernel world."""
    for function in _functions(world):
        found = unsupported(function)
        if found is not None:
            why, line = found
            raise WorldError(f"{world.name} cannot be compiled: {why}{line_of(function, line)}")


def _explained(world: KernelWorld, text: str) -> str:
    """The compiler's message in our words, with its line."""
    assigned = _assignment_inside(world) if "Type of variable" in text else None
    return assigned or f"{_reason(text)}{_place(world, text)}"


def _assignment_inside(world: KernelWorld) -> str | None:
    """The first `:=`, of which the compiler only says that some type is unknown to it."""
    for function in _functions(world):
        with suppress(OSError):  # a function that rookery made has no source
            lines, first = inspect.getsourcelines(function)
            for number, line in enumerate(lines, first):
                if ":=" in line:
                    return f"compiled code has no `:=`; assign on a line of its own{line_of(function, number)}"
    return None


def _reason(text: str) -> str:
    if "NRT required" in text:
        return _NEEDS_MEMORY
    if READ_ONLY in text or "Cannot modify readonly array" in text:
        return READ_ONLY
    through_module = _OF_MODULE.search(text)
    if through_module:
        name, module = through_module.groups()
        if module.partition(".")[0] in ("numpy", *sys.stdlib_module_names):
            return f"compiled code has no {module}.{name}; {_OWN_FUNCTION}"
        return f"{module}.{name} is called through its module; write `from {module} import {name}`, then {name}(...)"
    no_numpy = _NO_NUMPY.search(text)
    if no_numpy:
        return f"compiled code has no {no_numpy[1]} for these arguments; {_OWN_FUNCTION}"
    if _ARRAY_FIELD.search(text):
        return _ONE_BY_ONE
    no_constant = _NO_CONSTANT.search(text)
    if no_constant:
        name, kind = no_constant.groups()
        if hasattr(builtins, name):
            return f"compiled code has no {name}; {_OWN_FUNCTION}"
        kind = "class" if kind == "type" else kind
        return f"{name} is a {kind}; a constant must be a number, a tuple or a NumPy array at the top of the file"
    unknown = _UNKNOWN.search(text)
    if unknown and hasattr(operator, unknown[1]):
        return f"the operator {unknown[1]} cannot be compiled for these operands; use numbers, and arrays of numbers"
    if unknown:
        return f"{unknown[1]} cannot be compiled for these arguments; {_OWN_FUNCTION}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), text)


def _place(world: KernelWorld, text: str) -> str:
    """The first place in the compiler's message, which is the innermost, that is in the world's own code."""
    files = {function.__code__.co_filename: function for function in _functions(world)}
    for found in _PLACE.finditer(text):
        path, line = (part for part in found.groups() if part)
        for file in (path, os.path.abspath(path)):  # the compiler shortens some paths to relative ones
            if file in files:
                return line_of(files[file], int(line))
    return ""


def line_raised(world: KernelWorld, error: Exception) -> str:
    files = {function.__code__.co_filename: function for function in _functions(world)}
    raised = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in raised if frame.filename in files]
    if frames:
        return line_of(files[frames[-1].filename], frames[-1].lineno)
    if world.calls_c and raised[-1].name != "step":
        return ""  # it was raised in the C library
    values = f"{'the reward and ' if world.num_agents == 1 else ''}whether the episode terminated"
    values += ", and whether it was truncated" if truncates(world) else ""
    values += "; easy, an integer before that" if world.easy else ""
    function = getattr(world, world.returned_by)
    place = line_of(function, _last_return(function)) if function in _functions(world) else ""
    return f" ({world.returned_by} should return {values}){place}"


def _last_return(function: FunctionType) -> int | None:
    returns = [step for step in dis.get_instructions(function) if step.opname in ("RETURN_VALUE", "RETURN_CONST")]
    return returns[-1].positions.lineno if returns[-1].positions else None


def _functions(world: KernelWorld) -> list[FunctionType]:
    """The world's functions and all that they call, except those of rookery."""
    found = {function for function in functions_of(world) if function.__module__ not in OURS}
    return sorted(found, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno))


# --- names that compiled code cannot use ------------------------------------------------------------------------------

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
