"""Worlds with mistakes that compiled code would not notice."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rookery import KernelWorld
from rookery.kernel.random import integer

CONSTANTS = np.array([1.0, 2.0, 3.0])
STEPS_BEFORE = 5  # more than a world is tried before it is compiled
FAR = 10**9
# Which mistake, by the parameter `mistake`; the comments at the lines below have the same names.
MISTAKES = (
    "none", "field beyond", "field before", "nested", "table row", "table column", "written field", "written beyond",
    "constant", "scratch", "out of observe", "in helper", "not a number", "masked", "info", "at reset",
)  # fmt: skip


def look_beyond(values, place):
    return values[place]  # in helper


class Indices(KernelWorld):
    """Goes wrong after a few steps, in the way it is told."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = spaces.Discrete(2)
    state = {"x": "f8", "row": ("f8", (3,)), "grid": ("u1", (2, 4))}
    scratch = {"work": ("f8", (2,))}
    info = {"seen": ("f8", (2,))}
    parameters = {"mistake": 0, "far": 7}
    tables = {"prices": np.ones((6, 2)), "bytes": np.zeros(5, np.uint8)}
    time_limit = 40

    @staticmethod
    def reset(state, params, tables):
        state.x = 1.0
        if state.episode > 1 and params.mistake == 15:
            state.x = tables.bytes[params.far]  # at reset

    @staticmethod
    def step(state, action, params, tables, scratch, info):
        wrong = params.mistake if state.steps > 5 else 0
        far = params.far
        if wrong == 1:
            state.x = state.row[far]  # field beyond
        elif wrong == 2:
            state.x = state.row[-far]  # field before
        elif wrong == 3:
            state.x = state.grid[1, far]  # nested
        elif wrong == 4:
            state.x = tables.prices[far, 0]  # table row
        elif wrong == 5:
            state.x = tables.prices[0, far]  # table column
        elif wrong == 6:
            state.row[far] = 1.0  # written field
        elif wrong == 7:
            state.grid[far, 0] += 1  # written beyond
        elif wrong == 8:
            state.x = CONSTANTS[far]  # constant
        elif wrong == 9:
            scratch.work[far] = 2.0  # scratch
        elif wrong == 11:
            state.x = look_beyond(state.row, far)
        elif wrong == 12:
            state.x = state.row[int(1e300 * far)]  # not a number
        elif wrong == 14:
            info.seen[far] = 1.0  # info
        return 0.0, False

    @staticmethod
    def observe(state, params, out):
        out[0] = state.x
        if params.mistake == 10 and state.steps > 5:
            out[params.far] = 1.0  # out of observe

    @staticmethod
    def action_mask(state, params, out):
        out[0] = 1
        out[1] = 1
        if params.mistake == 13 and state.steps > 5:
            out[params.far] = 1  # masked


class EmptyRanges(KernelWorld):
    """Draws from nothing: 1 in a step, 2 at a reset, 3 from a range that runs backwards."""

    observation_space = spaces.Discrete(10)
    action_space = spaces.Discrete(2)
    state = {"place": "i8"}
    parameters = {"mistake": 0, "width": 0}
    time_limit = 8

    @staticmethod
    def reset(state, params):
        if params.mistake == 2 and state.episode > 1:
            state.place = integer(state, 3, 3 + params.width)  # 2

    @staticmethod
    def step(state, params):
        if params.mistake == 1 and state.steps > 5:
            state.place = integer(state, 0, params.width)  # 1
        if params.mistake == 3 and state.steps > 5:
            state.place = integer(state, 4, params.width)  # 3
        return 0.0, False

    @staticmethod
    def observe(state, out):
        out[0] = state.place


class WritesParameters(EmptyRanges):
    """Changes a parameter, which other envs share, at some far moment."""

    @staticmethod
    def step(state, params):
        if state.steps > 1000:
            params.width = 3  # here
        return 0.0, False


class WritesTables(EmptyRanges):
    """Writes into a table by way of a helper, at some far moment."""

    tables = {"levels": np.zeros((4, 3), np.float32)}

    @staticmethod
    def step(state, tables):
        if state.steps > 1000:
            raise_level(tables.levels[1])
        return 0.0, False


def raise_level(row):
    row[2] += 1.0  # here


class Endless(KernelWorld):
    """Never comes back from some step: 1 in a `while`, 2 in nested `for`s, 3 in one endless `for`; 4 at a reset."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)
    state = {"x": "f8"}
    parameters = {"kind": 0, "many": 10**6}
    time_limit = 8

    @staticmethod
    def reset(state, params):
        while params.kind == 4 and state.episode > 1:
            state.x += 1.0

    @staticmethod
    def step(state, params):
        kind = params.kind if state.steps > 5 else 0
        while kind == 1:
            state.x += 1.0
        if kind == 2:
            for _ in range(params.many):
                for _ in range(params.many):
                    for k in range(params.many):
                        state.x += k / (1.0 + state.x)
        if kind == 3:
            for k in range(10**6 * params.many * params.many):
                state.x += k / (1.0 + state.x)
        return 0.0, False

    @staticmethod
    def observe(state, out):
        out[0] = state.x


class EndlessFromTheStart(Endless):
    """Does not come back from its first reset (1) or its first step (2)."""

    @staticmethod
    def reset(state, params):
        while params.kind == 1:
            state.x += 1.0  # endless reset

    @staticmethod
    def step(state, params):
        while params.kind == 2:
            state.x += 1.0  # endless step
        return 0.0, False


class DividesByZero(Endless):
    """At its first step."""

    @staticmethod
    def reset(state):
        state.x = 0.0

    @staticmethod
    def step(state):
        state.x = 5 // (state.steps - state.steps)  # zero
        return 0.0, False


class FunctionInside(Endless):
    """Numba would drop the writes to arrays around it."""

    @staticmethod
    def step(state):
        def twice(x):  # inner
            return 2.0 * x

        state.x = twice(state.x)
        return 0.0, False
