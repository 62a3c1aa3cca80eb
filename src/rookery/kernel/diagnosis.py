"""Errors of a world's code, explained in terms of the world, with the line they refer to."""

from __future__ import annotations

import builtins
import dis
import inspect
import operator
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from rookery.errors import RookeryError, WorldError
from rookery.kernel.batch_loop import RESET, STEP
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import COLUMNS, SAME_STEP, Columns, functions_of
from rookery.kernel.plain import entry_point
from rookery.kernel.plain_values import READ_ONLY, PlainRows
from rookery.kernel.step_values import DryRunTimeout, time_limit, truncates
from rookery.kernel.translate import line_of
from rookery.kernel.unsupported import unsupported
from rookery.kernel.world import KernelWorld
from rookery.kernel.world_calls import build_easy_step

DRY_RUN_STEPS = 3
DRY_RUN_SECONDS = 5.0
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
_ENDED = {"terminated": "terminated", "truncated": "was truncated"}
# Modules whose functions are no author's.
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


def dry_run(world: KernelWorld) -> str | None:
    """Run a few steps in plain Python before compiling: its errors are clearer than the compiler's. If they take longer
    than DRY_RUN_SECONDS, it returns the line that was reached then: they may be slow, or never end."""
    _refuse_unsupported(world)
    env_arrays = EnvArrays(world, 1)
    plan, entry = env_arrays.plan(), entry_point(_with_checked_step(world))
    plan[2] = SAME_STEP
    env_arrays.reset_mask[:] = True
    action_space = deepcopy(world.action_space)
    action_space.seed(0)
    try:
        with time_limit(DRY_RUN_SECONDS):
            entry(env_arrays, plan, RESET, 0, 1, 0)
            for _ in range(DRY_RUN_STEPS):
                env_arrays.actions.reshape(world.num_agents, -1)[:] = [
                    np.ravel(action_space.sample()) for _ in range(world.num_agents)
                ]
                _try_easy(world, env_arrays)
                entry(env_arrays, plan, STEP, 0, 1, 0)
    except DryRunTimeout as reached:
        return _line_raised(world, reached)
    except RookeryError:
        return None
    except Exception as error:
        if isinstance(error, ArithmeticError) and not str(error).startswith("integer "):
            return None  # division by zero gives infinity in compiled code, where the checks of values find it
        raise error_in_world(world, error) from error
    return None


def error_in_world(world: KernelWorld, error: Exception, where: str = "") -> WorldError:
    """A WorldError for what a world's code raised in plain Python, with its line."""
    why: Any = _ONE_BY_ONE if "bytes-like object" in str(error) else error
    if isinstance(error, (TypeError, AttributeError)) and _OUR_ARRAYS.search(str(error)):
        why = _NUMBER_BY_NUMBER
    made = WorldError(f"{world.name} fails: {where}{why}{_line_raised(world, error)}")
    made.__cause__ = error
    return made


def _try_easy(world: KernelWorld, env_arrays: EnvArrays) -> None:
    """Call `easy` for the next step of a copy: only a GPU calls it otherwise, so its errors would be found late."""
    if world.easy is None:
        return
    columns: Any = Columns(*(PlainRows(env_arrays.arrays[name].copy()) for name in COLUMNS))
    tables = env_arrays.tables_type(*map(PlainRows, env_arrays.tables.values()))
    columns.params.array.flags.writeable = False
    kind, *_ = build_easy_step(world)(columns, tables, 0, columns.states[0], columns.params[0])
    before, after = env_arrays.states, columns.states.array
    same = all(np.array_equal(before[name], after[name], equal_nan=True) for name in before.dtype.names or ())
    if kind != 0 and not same:  # compared field by field: the padding between fields is undefined
        raise ValueError(f"easy returned {kind}, for a hard step, after it had changed the state")


def _with_checked_step(world: KernelWorld) -> KernelWorld:
    """The world, with a step whose return value is checked: compiled code would accept None, and the values in the
    wrong order."""
    checked = copy(world)

    @wraps(world.step)
    def step(*arguments: Any) -> Any:
        returned = world.step(*arguments)
        values = ["reward"] * (world.num_agents == 1) + ["terminated"] + ["truncated"] * truncates(world)
        for name, value in zip(values, returned if len(values) > 1 else (returned,), strict=True):
            if name != "reward" and not isinstance(value, (bool, int, np.bool_, np.integer)):
                raise TypeError(f"{value!r} is not a bool for whether the episode {_ENDED[name]}")
        return returned

    checked.step = step
    return checked


@contextmanager
def explain_compile_errors(world: KernelWorld) -> Iterator[None]:
    """Turn the compiler's errors into a WorldError that points to the world's own code."""
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    try:
        yield
    except (NumbaError, UnsupportedBytecodeError, RuntimeError, KeyError) as error:
        text = _ESCAPES.sub("", str(error))
        raise WorldError(f"{world.name} cannot be compiled: {_explained(world, text)}") from error


def _refuse_unsupported(world: KernelWorld) -> None:
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


def _line_raised(world: KernelWorld, error: Exception) -> str:
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
