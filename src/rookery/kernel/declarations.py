"""What a kernel world may declare beside its functions: parameters, problems, turns, and a simulation on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium import spaces

from rookery.errors import OptionError, WorldError

# --- parameters: numbers, or arrays of numbers of a fixed shape -------------------------------------------------------

NUMBER = (bool, int, float, np.integer, np.floating, np.bool_)


class Form(NamedTuple):
    """How a parameter is stored: its dtype, and its shape, which is () for a number."""

    dtype: str
    shape: tuple[int, ...] = ()

    def field(self, name: str) -> tuple[Any, ...]:
        """The parameter as a field of a NumPy record."""
        return (name, self.dtype, self.shape) if self.shape else (name, self.dtype)


def declared(world: str, name: str, default: Any) -> tuple[Form, Any]:
    """The form of a parameter and its default, from a number, an array, or ("f8", shape), which means zeros.

    >>> declared("Market", "fees", np.zeros(2))
    (Form(dtype='f8', shape=(2,)), [0.0, 0.0])
    >>> declared("Market", "fees", ("i8", (3,)))
    (Form(dtype='i8', shape=(3,)), [0, 0, 0])
    """
    if isinstance(default, NUMBER):
        return Form("i8" if isinstance(default, (bool, int, np.integer, np.bool_)) else "f8"), default
    array = _zeros(world, name, default) if _is_form(default) else _array(default)
    if array is None or array.dtype.kind not in "biuf":
        raise WorldError(
            f"{world}.parameters: {name!r} should be a number, an array of numbers, or ('f8', shape), got {default!r}"
        )
    if array.size == 0:
        raise WorldError(f"{world}.parameters: {name!r} is empty; its shape is {array.shape}")
    form = Form("f8" if array.dtype.kind == "f" else "i8", array.shape)
    return form, array.astype(form.dtype).tolist()


def checked(world: str, name: str, value: Any, form: Form) -> Any:
    """The value of a parameter as a number, or as a nested list of its shape; a single number fills an array."""
    if not form.shape:
        if not isinstance(value, NUMBER):
            raise OptionError(f"{world}: the parameter {name!r} should be a number, got {value!r}")
        if form.dtype == "i8" and not is_whole(value):
            raise OptionError(f"{world}: the parameter {name!r} should be an integer, got {value!r}")
        return value
    array = _array(value)
    if array is None or array.dtype.kind not in "biuf":
        raise OptionError(f"{world}: the parameter {name!r} should be numbers of the shape {form.shape}, got {value!r}")
    if array.shape not in ((), form.shape):
        raise OptionError(
            f"{world}: the parameter {name!r} should have the shape {form.shape}, or be one number, got the shape "
            f"{array.shape}"
        )
    if form.dtype == "i8" and not all(map(is_whole, array.ravel().tolist())):
        raise OptionError(f"{world}: the parameter {name!r} should hold integers, got {value!r}")
    return np.broadcast_to(array, form.shape).astype(form.dtype).tolist()


def is_whole(value: Any) -> bool:
    """Whether a number is an integer that 64 bits can hold."""
    return -(2**63) <= value < 2**63 and value == int(value)  # neither for NaN nor for infinity


def _is_form(default: Any) -> bool:
    return isinstance(default, tuple) and len(default) == 2 and isinstance(default[0], (str, type, np.dtype))


def _zeros(world: str, name: str, default: tuple[Any, Any]) -> np.ndarray:
    try:
        return np.zeros(default[1], default[0])
    except (TypeError, ValueError) as error:
        raise WorldError(f"{world}.parameters: {name!r} should be like ('f8', (7,)): {error}") from None


def _array(value: Any) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except ValueError:  # a ragged list
        return None


# --- functions that are always inlined, or never ----------------------------------------------------------------------


def inlined(function: Any) -> Any:
    """A decorator for a small function that a world calls millions of times a second: code for a CPU contains it at
    every place where it is called. For other helpers, and on a GPU, the compiler decides."""
    function.always_inlined = True
    return function


def not_inlined(function: Any) -> Any:
    """A decorator for a large function that is called at many places and seldom needed: code for a GPU, whose compiler
    would inline it everywhere, and take minutes for that, calls it."""
    function.never_inlined = True
    return function


def whole(number: Any) -> int:
    """`int(number)`, which on a GPU too is a signed integer of 64 bits: there, `int` of a byte is an unsigned one, and
    of that and a signed one, the sum is a double."""
    return int(number)


# --- problems that a world finds in its own step, such as a simulation that has become unstable -----------------------

FIRST_PROBLEM = 4  # a `stage` of an env, besides those in env_loop.py and random.py; the others follow it


def mark_problem(state: Any, number: int) -> None:
    """Report `problems[number]` of the world when this step or reset ends, as an error that names the env and the step.
    It may be called several times: the last call counts."""
    state.stage = FIRST_PROBLEM + number


# --- agents that take turns -------------------------------------------------------------------------------------------
#
# `turn(state)` returns the agent whose action counts in the next step. The other agents have no choice in that step,
# and their masks say so: only their first action is allowed. A policy takes it with probability 1, so a learner cannot
# learn from it as if it had been chosen; it only learns what the position is worth.

Function = Callable[..., Any]


def has_masks(space: Any) -> bool:
    """Whether actions of this space can be masked."""
    return isinstance(space, (spaces.Discrete, spaces.MultiDiscrete))


def mask_of_turns(space: spaces.Space, turn: Function, own_mask: Function | None) -> Function:
    """The action mask of a world with `turn`, whose actions are in `space`: its own mask (all actions, if it has none)
    for the agent that acts next, and the first action for the others. Both functions take all arguments of their
    roles."""
    firsts = _first_choices(space)

    def all_actions(state: Any, out: Any, agent: int, params: Any, tables: Any) -> None:
        for k in range(len(out)):
            out[k] = 1

    allowed = own_mask or all_actions

    def action_mask(state: Any, out: Any, agent: int, params: Any, tables: Any) -> None:
        if turn(state, params, tables) == agent:
            allowed(state, out, agent, params, tables)
            return
        for k in range(len(out)):
            out[k] = 0
        for first in firsts:
            out[first] = 1

    return action_mask


def _first_choices(space: Any) -> tuple[int, ...]:
    """Where the first choice of each number of an action is in its mask.

    >>> _first_choices(spaces.MultiDiscrete([3, 2, 4]))
    (0, 3, 5)
    """
    if isinstance(space, spaces.Discrete):
        return (0,)
    return tuple(int(at) for at in np.cumsum([0, *np.ravel(space.nvec)[:-1]]))


# --- simulations ------------------------------------------------------------------------------------------------------


class Simulation(Protocol):
    """The states of all envs, in arrays on a device, for a world that is simulated by a library of its own on a GPU:
    that library steps all envs at once.

    A step of such a world is three pieces of work: a kernel that writes controls, the library's own kernels, and a
    kernel that computes rewards and observations. Envs whose episode begins are then settled: the library computes what
    follows from their first state, and a last kernel writes their observations again.
    """

    # Tensors whose rows are envs: the world's functions find them among the tables, at `scratch.simulated_env`.
    arrays: dict[str, Any]
    state_field: str  # the field of a state that holds the complete state of the simulation on the CPU

    def advance(self) -> None:
        """Simulate one step of all envs, on torch's current stream, without waiting."""

    def settle(self) -> None:
        """Compute what follows from the states of envs, for those that begin an episode."""

    def read_states(self) -> np.ndarray:
        """The complete state of each env."""

    def write_states(self, states: np.ndarray) -> None:
        """Replace the states of all envs by what `read_states` returned."""
