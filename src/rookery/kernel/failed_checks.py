"""Checks in compiled code that failed: where in the world's source, and what was wrong.

A check is known by its place: one number, in which compiled code can note it. A failed check ends the step of its env.
"""

from __future__ import annotations

import hashlib
from typing import Any

from rookery.errors import WorldError
from rookery.kernel.env_loop import functions_of
from rookery.kernel.translate import line_of
from rookery.kernel.world import KernelWorld

# What was checked. Two numbers are noted with a failure: an index and a size, or those that the text has.
INDEX, DIVISION, TO_INTEGER, EMPTY_RANGE, LONG_LOOP, ENDLESS = range(6)
SAYS = {
    DIVISION: (ZeroDivisionError, "integer division or modulo by zero"),
    TO_INTEGER: (OverflowError, "a float that is NaN, infinite or too large becomes an integer"),
    EMPTY_RANGE: (ValueError, "integer(state, {0}, {1}) has an empty range: {1} should be above {0}"),
    LONG_LOOP: (OverflowError, "a loop over a range of {0:,} numbers does not end in a lifetime"),
    ENDLESS: (TimeoutError, "a loop does not end: after {0} seconds its step was stopped"),
}
ENDLESS_SECONDS = 10
_KINDS, _AXES, _LINES = 1 << 4, 1 << 4, 1 << 24  # more than there are
OWN = "rookery."
TRUSTED = "rookery.kernel."  # parts of the engine that worlds call


def place(number: int, line: int, kind: int, axis: int = 0) -> int:
    """The place of a check in the function of this number (see `functions_of`), in its so-manieth line.

    >>> parts(place(7, 12, INDEX, 2))
    (7, 12, 0, 2)
    """
    return (((number + 1) * _LINES + line) * _KINDS + kind) * _AXES + axis


def place_of(state: Any, line: int, kind: int) -> int:
    """The place of a check in the function that is being compiled, in this line of the file; 0 if that function is not
    checked. `state.numbers` is what `numbered` returns."""
    code = state.func_id.func.__code__
    return place(state.numbers[code], line - code.co_firstlineno, kind) if code in state.numbers else 0


def parts(place: int) -> tuple[int, int, int, int]:
    """The number of the function, its line, the kind of check and the axis."""
    place, axis = divmod(place, _AXES)
    place, kind = divmod(place, _KINDS)
    number, line = divmod(place, _LINES)
    return number - 1, line, kind, axis


def numbered(world: KernelWorld) -> dict[Any, int]:
    """The numbers of the functions that are checked, by their code objects."""
    functions = enumerate(functions_of(world))
    return {function.__code__: k for k, function in functions if not _written_in(function, TRUSTED)}


def lines_key(world: KernelWorld) -> str:
    """A hash of the lines of the functions, within each: compiled code contains them."""
    digest = hashlib.sha256()
    for function in functions_of(world):
        digest.update(repr((function.__qualname__, function.__code__.co_linetable)).encode())
    return digest.hexdigest()


def is_checked(world: KernelWorld, bounds: bool | None) -> bool:
    """Whether the compiled code of a world is checked, with this option of `make_vec`. Those of rookery are not, unless
    asked for: its tests run them checked."""
    if bounds is not None:
        return bounds
    return world.bounds and not all(_written_in(function, OWN) for function in functions_of(world))


def _written_in(function: Any, package: str) -> bool:
    return str(function.__module__).startswith(package)


def error_of(world: KernelWorld, where: str, failure: Any) -> WorldError:
    """The error of a failed check, from what was noted of it: the place, and two numbers."""
    noted, *numbers = map(int, failure)
    if noted == 0:
        return WorldError(f"{world.name} fails: {where}an exception in compiled code, whose line is not known")
    number, line, kind, axis = parts(noted)
    function = list(functions_of(world))[number]
    error = _exception(kind, axis, numbers)
    named = "" if isinstance(error, (IndexError, ValueError)) else f"{type(error).__name__}: "
    at = line_of(function, function.__code__.co_firstlineno + line)
    made = WorldError(f"{world.name} fails: {where}{named}{error}{at}")
    made.__cause__ = error
    return made


def _exception(kind: int, axis: int, numbers: list[int]) -> Exception:
    if kind == INDEX:
        index, size = numbers
        which = f"axis {axis} of size {size}" if axis else f"an array of {size}"
        return IndexError(f"index {index} is out of bounds for {which}")
    error, text = SAYS[kind]
    return error(text.format(*numbers))
