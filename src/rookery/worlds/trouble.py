"""What is wrong with a world's code, in words about the world, with the line that is meant."""

from __future__ import annotations

import dis
import linecache
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from types import FunctionType

import numpy as np

from rookery.errors import RookeryError, WorldError
from rookery.worlds.arena import Arena
from rookery.worlds.batch_loop import BEGIN, STEP
from rookery.worlds.kernel import ARGUMENTS, KernelWorld
from rookery.worlds.loop import SAME_STEP
from rookery.worlds.plain import entry_point
from rookery.worlds.translate import reachable

REHEARSAL_STEPS = 3
_PLACE = re.compile(r"During: .* at (.+) \((\d+)\)")
_OF_MODULE = re.compile(r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_NEEDS_MEMORY = "something in it needs memory of its own (a list, a string, a new array); use fields of `scratch`"


def rehearse(world: KernelWorld) -> None:
    """Run a few steps in plain Python before compiling: its errors are clearer than any compiler's, and it notices
    what compiled code would not, such as an index outside an array."""
    _refuse(world)
    arena = Arena(world, 1)
    plan, entry = arena.plan(), entry_point(world)
    plan[2] = SAME_STEP
    arena.wanted[:] = True
    action_space = deepcopy(world.action_space)
    action_space.seed(0)
    try:
        entry(arena, plan, BEGIN, 0, 1, 0)
        for _ in range(REHEARSAL_STEPS):
            arena.actions.reshape(world.num_agents, -1)[:] = [
                np.ravel(action_space.sample()) for _ in range(world.num_agents)
            ]
            entry(arena, plan, STEP, 0, 1, 0)
    except (ArithmeticError, RookeryError):
        return  # division by zero and the like give infinity in compiled code, where the checks of values find it
    except Exception as error:
        raise WorldError(f"{world.name} fails: {error}{_raised_at(world, error)}") from error


@contextmanager
def explained(world: KernelWorld) -> Iterator[None]:
    """Turns the compiler's errors into a WorldError that points into the world's own code."""
    from numba.core.errors import NumbaError

    try:
        yield
    except (NumbaError, RuntimeError, KeyError) as error:
        text = _ESCAPES.sub("", str(error))
        raise WorldError(f"{world.name} cannot be compiled: {_reason(text)}{_place(world, text)}") from error


def _refuse(world: KernelWorld) -> None:
    """What the compiler would let pass, and which then would not work."""
    for function in _functions(world):
        for instruction in dis.get_instructions(function):
            if instruction.opname in ("RAISE_VARARGS", "LOAD_ASSERTION_ERROR"):
                why = "raise an exception; return `terminated`, or write NaN, which is reported"
            elif instruction.opname == "LOAD_GLOBAL" and instruction.argval == "print":
                why = "print; run it as plain Python (plain=True) to look inside"
            else:
                continue
            line = instruction.positions.lineno if instruction.positions else None
            raise WorldError(f"{world.name} cannot be compiled: compiled code cannot {why}{_line(function, line)}")


def _reason(text: str) -> str:
    if "NRT required" in text:
        return _NEEDS_MEMORY
    through_module = _OF_MODULE.search(text)
    if through_module:
        name, module = through_module.groups()
        return f"{module}.{name} is reached through its module; write `from {module} import {name}`, then {name}(...)"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), text)


def _place(world: KernelWorld, text: str) -> str:
    """The first place in the compiler's text, which is the innermost, that lies in the world's own code."""
    files = {function.__code__.co_filename: function for function in _functions(world)}
    for path, line in _PLACE.findall(text):
        if path in files:
            return _line(files[path], int(line))
    return ""


def _raised_at(world: KernelWorld, error: Exception) -> str:
    files = {function.__code__.co_filename: function for function in _functions(world)}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    if frames:
        return _line(files[frames[-1].filename], frames[-1].lineno)
    return f" (step should return {'the reward and ' if world.num_agents == 1 else ''}whether the episode terminated)"


def _functions(world: KernelWorld) -> list[FunctionType]:
    """The world's functions and all that they call."""
    found: set[FunctionType] = set()
    for role in ARGUMENTS:
        if isinstance(getattr(world, role, None), FunctionType):
            reachable(getattr(world, role), found)
    return sorted(found, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno))


def _line(function: FunctionType, line: int | None) -> str:
    file, line = function.__code__.co_filename, line or function.__code__.co_firstlineno
    return f'\n  File "{file}", line {line}\n    {linecache.getline(file, line).strip()}'
