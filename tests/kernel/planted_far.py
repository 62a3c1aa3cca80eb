"""A world with twenty-six mistakes, of which one is made at some far step, in the envs that are told to."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numba import njit

from kernel.planted_helper import element
from rookery import KernelWorld
from rookery.kernel.random import integer, uniform

SIZES = np.array([3.0, 1.0, 2.0])
PAIR = (0.5, 1.5)
HUGE = 2**62
FIRST = -(2**63)
# By the parameter `mistake`; the lines that make them end in the same names. Each with what its error says.
MISTAKES = {
    "none": "",
    "state": "index 3 is out of bounds for an array of 3",
    "before": "index -4 is out of bounds for an array of 3",
    "huge": f"index {HUGE} is out of bounds for an array of 6",
    "first": f"index {FIRST} is out of bounds for an array of 6",
    "column": "index 2 is out of bounds for axis 1 of size 2",
    "observation": "index 5 is out of bounds for an array of 4",
    "mask": "index -3 is out of bounds for an array of 2",
    "helper": "index 3 is out of bounds for an array of 3",
    "augmented": "index 7 is out of bounds for an array of 3",
    "written": "index 4 is out of bounds for axis 1 of size 4",
    "row of row": "index 4 is out of bounds for an array of 4",
    "empty": "index 0 is out of bounds for an array of 0",
    "unsigned": "is out of bounds for an array of 3",
    "information": "index 2 is out of bounds for an array of 2",
    "scratch": "index 100000 is out of bounds for an array of 2",
    "constant": "index 3 is out of bounds for an array of 3",
    "tuple": "index 2 is out of bounds for an array of 2",
    "flat": "index 8 is out of bounds for an array of 8",
    "decorated": "index 9 is out of bounds for an array of 3",
    "slice": "index 2 is out of bounds for an array of 2",
    "begin": "index 6 is out of bounds for an array of 6",
    "divided": "ZeroDivisionError: integer division or modulo by zero",
    "modulo": "ZeroDivisionError: integer division or modulo by zero",
    "not finite": "OverflowError: a float that is NaN, infinite or too large becomes an integer",
    "nothing": "integer(state, 4, 4) has an empty range: 4 should be above 4",
    "long": "OverflowError: a loop over a range of 1,099,511,627,776 numbers",
}
NUMBER = {name: k for k, name in enumerate(MISTAKES)}


@njit
def decorated(place):
    return SIZES[place]  # decorated


class Far(KernelWorld):
    """Draws, adds up and writes; goes wrong at step `when` of an episode."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,), np.float64)
    action_space = spaces.Discrete(2)
    state = {"x": "f8", "row": ("f8", (3,)), "grid": ("u1", (2, 4))}
    scratch = {"work": ("f8", (2,))}
    info = {"seen": ("f8", (2,))}
    parameters = {"mistake": 0, "when": 5}
    tables = {"prices": np.arange(12.0).reshape(6, 2)}

    @staticmethod
    def reset(state, params, tables):
        state.x = uniform(state, 0.0, 1.0)
        if params.mistake == 21 and state.episode > 1:
            state.x = tables.prices[params.mistake - 15, 0]  # begin

    @staticmethod
    def step(state, action, params, tables, scratch, info):
        n = state.steps + 1
        state.x += uniform(state, -1.0, 1.0) + tables.prices[n % 6, action]
        state.row[n % 3] += state.x
        state.row[-1] *= 0.5
        state.grid[n % 2, -(n % 4)] += 1
        wrong = params.mistake if n == params.when else 0
        nothing = n - params.when  # 0, when it goes wrong
        if wrong == 1:
            state.x = state.row[nothing + 3]  # state
        elif wrong == 2:
            state.row[nothing - 4] = 9.0  # before
        elif wrong == 3:
            state.x = tables.prices[nothing + HUGE, 1]  # huge
        elif wrong == 4:
            state.x = tables.prices[nothing + FIRST, 1]  # first
        elif wrong == 5:
            state.x = tables.prices[1, 2 + nothing]  # column
        elif wrong == 8:
            state.x = element(state.row, nothing + 3)
        elif wrong == 9:
            state.row[nothing + 7] += 1.0  # augmented
        elif wrong == 10:
            state.grid[nothing, nothing + 4] = 200  # written
        elif wrong == 11:
            state.x = state.grid[1][nothing + 4]  # row of row
        elif wrong == 12:
            part = state.row[2:2]
            part[nothing] = 3.0  # empty
        elif wrong == 13:
            state.x = state.row[np.uint64(nothing) - np.uint64(1)]  # unsigned
        elif wrong == 14:
            info.seen[nothing + 2] = 1.0  # information
        elif wrong == 15:
            scratch.work[nothing + 100_000] = 2.0  # scratch
        elif wrong == 16:
            state.x = SIZES[nothing + 3]  # constant
        elif wrong == 17:
            state.x = PAIR[nothing + 2]  # tuple
        elif wrong == 18:
            state.x = state.grid.flat[nothing + 8]  # flat
        elif wrong == 19:
            state.x = decorated(nothing + 9)
        elif wrong == 20:
            last = state.row[1:]
            state.x = last[nothing + 2]  # slice
        elif wrong == 22:
            state.x = n // nothing  # divided
        elif wrong == 23:
            n %= nothing  # modulo
            state.x = n
        elif wrong == 24:
            state.x = state.row[int(1e300 * (1.0 + nothing))]  # not finite
        elif wrong == 25:
            state.x = integer(state, 4, 4 + nothing)  # nothing
        elif wrong == 26:
            for k in range(2**40 + nothing):  # long
                state.x += k * state.x
        info.seen[0] = state.x
        ended = params.mistake == 21 and n == params.when
        return state.x, ended

    @staticmethod
    def observe(state, params, out):
        out[0] = state.x
        for k in range(3):
            out[k + 1] = state.row[k]
        if params.mistake == 6 and state.steps == params.when:
            out[state.steps - params.when + 5] = 1.0  # observation

    @staticmethod
    def action_mask(state, params, out):
        out[0] = 1
        out[1] = 1
        if params.mistake == 7 and state.steps == params.when:
            out[state.steps - params.when - 3] = 0  # mask
