"""Python that compiled code cannot run is rejected with the line and what to write instead."""

# ruff: noqa: B009

from __future__ import annotations

import math
import types

import numpy as np
import pytest

from kernel.samples import Steerer
from rookery.errors import WorldError
from rookery.kernel.diagnosis import unsupported
from rookery.kernel.kernel_env import KernelEnv

TOTAL = 0.0
LEVELS = np.zeros(3)


def catches(x):
    try:
        return 1.0 / x
    except ZeroDivisionError:
        return 0.0


def opens(x):
    with np.errstate(all="ignore"):
        return x


def counts(x):
    global TOTAL
    TOTAL = x


def imports(x):
    import cmath

    return cmath.phase(x)


def deletes(x):
    del x


def raises_with_a_text(x):
    if x > 1:
        raise ValueError(f"{x} is too large")


def takes_anything(**given):
    return given


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: np.linalg.norm(x), "no np.linalg.norm; write math.sqrt(x * x + y * y), or a loop"),
        (lambda x: np.linalg.solve(x, x), "no np.linalg.solve; write a loop"),
        (lambda x: np.matmul(x, x), "no np.matmul; write a loop"),
        (lambda x: np.max(x), "no np.max; write max(x)"),
        (lambda x: np.append(x, 1.0), "np.append makes a new array; use a field of `scratch`"),
        (lambda x: np.median(x), "no np.median; write a loop"),
        (lambda x: any(x), "no any; write a loop"),
        (lambda x: sorted(x), "no sorted; write a loop"),
        (lambda x: reversed(x), "no reversed; write range(last, -1, -1)"),
        (lambda x: sum(k for k in x), "cannot make a generator; write a `for` loop"),
        (lambda x: [k for k in x], "cannot make a list; use a tuple"),
        (lambda x: {1: 1.0, 2: x}, "cannot make a dictionary"),
        (lambda x: {k: 1.0 for k in x}, "cannot make a dictionary"),
        (lambda x: x in {0, 1}, "cannot make a set; use a tuple"),
        (lambda x: len(f"{x}"), "makes no texts; use numbers"),
        (lambda x: str(x), "makes no texts; use numbers"),
        (lambda x: float("inf"), "no float('inf'); write math.inf"),
        (lambda x: getattr(x, "y"), "no getattr; write the name, as in state.x"),
        (lambda x: setattr(x, "y", 1.0), "no setattr; write the name, as in state.x = 1.0"),
        (lambda x: print(x), "cannot print; run it as plain Python"),
        (catches, "raises no exceptions; test before"),
        (opens, "has no `with`"),
        (counts, "cannot change a global name; keep what changes in a field of `state`"),
        (imports, "cannot import; write the import at the top"),
        (deletes, "leave out `del`"),
        (raises_with_a_text, "cannot raise an exception"),
        (takes_anything, "takes any keyword arguments (**); name each of them"),
    ],
)
def test_what_to_write_instead_is_said(function, words):
    why, _ = unsupported(function)
    assert words in why


@pytest.mark.parametrize(
    "function",
    [
        lambda x: 1.0 if x in (0, 1) else math.inf,
        lambda x: max(x) + sum(x) + np.sum(x) + np.mean(x) + np.argmax(x),
        lambda x: float(x) + (2 if isinstance(x, int) else 3),
    ],
)
def test_what_can_be_compiled_is_not_refused(function):
    assert unsupported(function) is None


def world_with(step):
    return type("Trial", (Steerer,), {"step": staticmethod(step)})


def assigns_inside(state, action):
    if (x := state.x) > 0.0:
        state.x = 2.0 * x
    return 0.0, False


def writes_a_constant(state, action):
    LEVELS[0] = state.x
    return 0.0, False


def calls_a_builtin(state, action):
    return id(state), False


def indexes_a_mixed_tuple(state, action):
    return (1.0, True, (2, 3))[int(action[0])], False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "words", "line"),
    [
        (assigns_inside, "no `:=`; assign on a line of its own", 1),
        (writes_a_constant, "tables, parameters and constants are read-only", 1),
        (calls_a_builtin, "compiled code has no id; write it as a function of your own", 1),
        (indexes_a_mixed_tuple, "the operator getitem cannot be compiled for these operands", 1),
    ],
)
def test_what_only_the_compiler_finds_is_explained(step: types.FunctionType, words, line):
    with pytest.raises(WorldError, match="Trial cannot be compiled") as caught:
        KernelEnv(world_with(step))
    assert words in str(caught.value)
    assert f"line {step.__code__.co_firstlineno + line}\n" in str(caught.value)


class ArrayField(Steerer):
    state = {**Steerer.state, "h": ("f8", (3,))}

    @staticmethod
    def reset(state):
        state.h = 0.0


@pytest.mark.slow
def test_an_array_field_is_written_one_number_at_a_time():
    with pytest.raises(WorldError, match=r"arrays are written one number at a time, as in out\[0\]"):
        KernelEnv(ArrayField)


def test_a_missing_function_is_said_to_be_missing():
    with pytest.raises(WorldError, match=r"^NoView has no observe: write a static method `def observe\(state, out\)`"):
        KernelEnv(type("NoView", (Steerer,), {"observe": None}))
