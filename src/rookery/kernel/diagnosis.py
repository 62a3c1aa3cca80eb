"""What is wrong with a world's code, in words about the world, with the line that is meant."""

from __future__ import annotations

import dis
import os
import random
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import wraps
from types import FunctionType
from typing import Any

import numpy as np

from rookery.errors import RookeryError, WorldError
from rookery.kernel.batch_loop import BEGIN, STEP
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import COLUMNS, SAME_STEP, Columns, functions_of
from rookery.kernel.plain import READ_ONLY, PlainRows, entry_point
from rookery.kernel.time_limit import TooLong, at_most
from rookery.kernel.translate import line_of
from rookery.kernel.world import KernelWorld
from rookery.kernel.world_calls import build_easy_actor

REHEARSAL_STEPS = 3
REHEARSAL_SECONDS = 5.0
_PLACE = re.compile(r'(?:During: .* at |Raised from )(.+) \((\d+)\)|File "(.+)", line (\d+):')
_OF_MODULE = re.compile(r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'")
_NO_CONSTANT = re.compile(r"Untyped global name '(\w+)': Cannot determine Numba type of <class '([\w.]+)'>")
_UNKNOWN = re.compile(r"No implementation of function Function\(<(?:built-in )?\w+ '?([\w.]+)")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_NEEDS_MEMORY = "something in it needs memory of its own (a list, a string, a new array); use fields of `scratch`"

_ONE_BY_ONE = "arrays are written number by number, as in out[0] = ..."
OURS = ("rookery.kernel.random", "rookery.kernel.translate")
_GENERATORS = (random.Random, np.random.RandomState)


def rehearse(world: KernelWorld) -> None:
    """Run a few steps in plain Python before compiling: its errors are clearer than any compiler's, and it notices
    what compiled code would not, such as an index outside an array."""
    _refuse(world)
    arena = EnvArrays(world, 1)
    plan, entry = arena.plan(), entry_point(_watched(world))
    plan[2] = SAME_STEP
    arena.wanted[:] = True
    action_space = deepcopy(world.action_space)
    action_space.seed(0)
    try:
        with at_most(REHEARSAL_SECONDS):
            entry(arena, plan, BEGIN, 0, 1, 0)
            for _ in range(REHEARSAL_STEPS):
                arena.actions.reshape(world.num_agents, -1)[:] = [
                    np.ravel(action_space.sample()) for _ in range(world.num_agents)
                ]
                _try_easy(world, arena)
                entry(arena, plan, STEP, 0, 1, 0)
    except (ArithmeticError, RookeryError, TooLong):
        return  # division by zero and the like give infinity in compiled code, where the checks of values find it
    except Exception as error:
        raise mistake_in(world, error) from error


def mistake_in(world: KernelWorld, error: Exception, where: str = "") -> WorldError:
    """What a world's code raised in plain Python, with the line that did."""
    why = _ONE_BY_ONE if "bytes-like object" in str(error) else error
    made = WorldError(f"{world.name} fails: {where}{why}{_raised_at(world, error)}")
    made.__cause__ = error
    return made


def _try_easy(world: KernelWorld, arena: EnvArrays) -> None:
    """Let `easy` take the next step of a copy: a CPU never calls it, so that its mistakes would wait for a GPU."""
    if world.easy is None:
        return
    columns: Any = Columns(*(PlainRows(arena.arrays[name].copy()) for name in COLUMNS))
    tables = arena.tables_type(*map(PlainRows, arena.tables.values()))
    columns.params.array.flags.writeable = False
    kind, _ = build_easy_actor(world)(columns, tables, 0, columns.states[0], columns.params[0])
    before, after = arena.states, columns.states.array
    same = all(np.array_equal(before[name], after[name], equal_nan=True) for name in before.dtype.names or ())
    if kind != 0 and not same:  # field by field: what lies between two fields is anything
        raise ValueError(f"easy returned {kind}, for a long step, after it had changed the state")


def _watched(world: KernelWorld) -> KernelWorld:
    """The world, with a step that minds what it returns: of compiled code, neither None nor the values in the wrong
    order would be noticed."""
    watched = copy(world)

    @wraps(world.step)
    def step(*arguments: Any) -> Any:
        returned = world.step(*arguments)
        _, terminated = returned if world.num_agents == 1 else (None, returned)
        if not isinstance(terminated, (bool, int, np.bool_, np.integer)):
            raise TypeError(f"{terminated!r} does not say whether the episode terminated")
        return returned

    watched.step = step
    return watched


@contextmanager
def explained(world: KernelWorld) -> Iterator[None]:
    """Turns the compiler's errors into a WorldError that points into the world's own code."""
    from numba.core.errors import NumbaError, UnsupportedBytecodeError

    try:
        yield
    except (NumbaError, UnsupportedBytecodeError, RuntimeError, KeyError) as error:
        text = _ESCAPES.sub("", str(error))
        raise WorldError(f"{world.name} cannot be compiled: {_reason(text)}{_place(world, text)}") from error


def _refuse(world: KernelWorld) -> None:
    """What the compiler would let pass, and which then would not work."""
    for function in _functions(world):
        instructions = list(dis.get_instructions(function))
        for before, instruction in zip([None, *instructions], instructions, strict=False):
            if instruction.opname in ("RAISE_VARARGS", "LOAD_ASSERTION_ERROR"):
                why = "raise an exception; return `terminated`, or write NaN, which is reported"
            elif instruction.opname == "LOAD_GLOBAL" and instruction.argval == "print":
                why = "print; run it as plain Python (plain=True) to look inside"
            elif _is_random(function, instruction, before):
                why = "draw from random or numpy.random, whose numbers depend on threads; take rookery.kernel.random"
            else:
                continue
            line = instruction.positions.lineno if instruction.positions else None
            raise WorldError(f"{world.name} cannot be compiled: compiled code cannot {why}{line_of(function, line)}")


def _is_random(function: FunctionType, instruction: dis.Instruction, before: dis.Instruction | None) -> bool:
    """Whether this reads a random number generator of Python or NumPy: by its own name, or as `np.random`."""
    if instruction.opname == "LOAD_GLOBAL":
        value = function.__globals__.get(instruction.argval)
        return value is random or value is np.random or isinstance(getattr(value, "__self__", None), _GENERATORS)
    if before is None or before.opname != "LOAD_GLOBAL" or instruction.argval != "random":
        return False
    return function.__globals__.get(before.argval) is np


def _reason(text: str) -> str:
    if "NRT required" in text:
        return _NEEDS_MEMORY
    if READ_ONLY in text or "Cannot modify readonly array" in text:
        return READ_ONLY
    through_module = _OF_MODULE.search(text)
    if through_module:
        name, module = through_module.groups()
        return f"{module}.{name} is reached through its module; write `from {module} import {name}`, then {name}(...)"
    no_constant = _NO_CONSTANT.search(text)
    if no_constant:
        name, kind = no_constant.groups()
        kind = "class" if kind == "type" else kind
        return f"{name} is a {kind}; constants are numbers, tuples and NumPy arrays at the top of the file"
    unknown = _UNKNOWN.search(text)
    if unknown:
        return f"{unknown[1]} cannot be compiled for what it is given"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), text)


def _place(world: KernelWorld, text: str) -> str:
    """The first place in the compiler's text, which is the innermost, that lies in the world's own code."""
    files = {function.__code__.co_filename: function for function in _functions(world)}
    for found in _PLACE.finditer(text):
        path, line = (part for part in found.groups() if part)
        for file in (path, os.path.abspath(path)):  # the compiler tells some by their way from here
            if file in files:
                return line_of(files[file], int(line))
    return ""


def _raised_at(world: KernelWorld, error: Exception) -> str:
    files = {function.__code__.co_filename: function for function in _functions(world)}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    if frames:
        return line_of(files[frames[-1].filename], frames[-1].lineno)
    values = f"{'the reward and ' if world.num_agents == 1 else ''}whether the episode terminated"
    return f" (step should return {values}{'; easy, a whole number before that' if world.easy else ''})"


def _functions(world: KernelWorld) -> list[FunctionType]:
    """The world's functions and all that they call, but for those of rookery."""
    found = {function for function in functions_of(world) if function.__module__ not in OURS}
    return sorted(found, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno))
