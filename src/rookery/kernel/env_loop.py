"""The loop around a world's functions: autoreset, time limits, returns and checks, for any number of envs.

Like the worlds, it is plain Python that is compiled: `build` closes it over a world's functions, and `translate`
turns the result into machine code for a CPU or a GPU. One env never looks at another, so envs may be stepped in any
order, by any number of threads.
"""

from __future__ import annotations

import math
from collections import namedtuple
from types import FunctionType
from typing import Any, NamedTuple

from rookery.kernel.random import EMPTY_RANGE, note_empty_range
from rookery.kernel.space_limits import can_leave
from rookery.kernel.translate import Function, reachable
from rookery.kernel.world import ARGUMENTS, KernelWorld, adapt
from rookery.kernel.world_calls import (
    build_actor,
    build_clearer,
    build_easy_actor,
    build_masker,
    build_resetter,
    mask_size,
)

# Where an env stands; after a draw from an empty range, it is at EMPTY_RANGE.
RUNNING, RESET_NEXT, OVER = 0, 1, 2
# When an env begins anew, as in Gymnasium.
NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2
# What a step may come to, besides numbers; a batch returns the union.
NOTHING, ENDED, FAULT = 0, 1, 2
HARD = 4  # it was not made, being a hard one: of the first kind, of the second kind if one more, and so on
# What `faults` holds for an env. STOPPED stands at the first of several envs, one of which raised an exception.
FINE, BAD_OBSERVATION, BAD_REWARD, BAD_ACTION, NOT_RUNNING, STOPPED, BAD_RANGE = range(7)

COLUMNS = (
    "states",  # (n,) records
    "params",  # (1,) or (n,) records
    "scratch",  # (slots,) records
    "infos",  # (rows,) records; a row is an agent of an env
    "final_infos",  # (rows,) records, of episodes that ended (SAME_STEP)
    "spoke",  # (n,) whether infos hold something of this step
    "wanted",  # (n,) whether to begin anew when told to
    "actions",  # (n, ...)
    "flat_actions",  # (n, size): the same memory, flat
    "action_low",  # (size,) what the action space allows
    "action_high",
    "observations",  # (rows, ...)
    "flat",  # (rows, size)
    "finals",  # (rows, ...): last observations of episodes that ended (SAME_STEP)
    "flat_finals",
    "low",  # (size,) what the observation space allows
    "high",
    "rewards",  # (rows,)
    "terminated",  # (rows,)
    "truncated",  # (rows,)
    "masks",  # (rows, actions)
    "final_masks",  # of episodes that ended (SAME_STEP)
    "last_returns",  # (rows,) of the episode that ended last
    "last_lengths",  # (rows,)
    "faults",  # (n,)
)
Columns: Any = namedtuple("Columns", COLUMNS)  # type: ignore[misc]


class Parts(NamedTuple):
    """What can be done to env i, each as a function of (columns, tables, i, slot, per_env, mode, strict)."""

    advance: Function  # the whole step; returns what it came to
    advance_if_easy: Function  # the same, but HARD or more if the step is not an easy one
    advance_running: Function  # the step of an env that is known to be running
    begin: Function  # a new episode; without mode


def functions_of(world: KernelWorld) -> set[Any]:
    """A world's functions, and all that they call."""
    found: set[Any] = set()
    for function in (getattr(world, role, None) for role in ARGUMENTS):
        if isinstance(function, FunctionType):
            reachable(function, found)
    return found


def build(world: KernelWorld) -> Parts:
    """The parts of the loop, closed over a world's functions."""
    agents, size = world.num_agents, math.prod(world.observation_space.shape or ())
    checked = size if can_leave(world.observation_space) else 0
    draws = note_empty_range in functions_of(world)
    choices, kinds, informs = mask_size(world), world.hard_kinds, bool(world.info)
    world_reset, observe = build_resetter(world), adapt(world.observe, "observe")
    clear, masks = build_clearer(world.state_dtype), build_masker(world)
    act, act_if_easy = build_actor(world), build_easy_actor(world)

    def start(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        clear(state)
        for agent in range(agents):
            state.returns[agent] = 0.0
        state.episode += 1
        state.draws = 0
        state.steps = 0
        state.stage = RUNNING
        world_reset(columns, tables, i, slot, state, params)

    def look(columns: Any, tables: Any, i: int, state: Any, params: Any) -> None:
        for agent in range(agents):
            observe(state, columns.observations[i * agents + agent], agent, params, tables)
        masks(columns, i, state, params, tables)

    def settle(columns: Any, i: int, terminated: bool, truncated: bool) -> None:
        for row in range(i * agents, i * agents + agents):
            columns.terminated[row] = terminated
            columns.truncated[row] = truncated

    def fault_of(columns: Any, i: int) -> int:
        for row in range(i * agents, i * agents + agents):
            reward = columns.rewards[row]
            if reward - reward != 0.0:  # NaN and infinity, without asking for either by name
                return BAD_REWARD
            good = True
            for k in range(checked):
                value = columns.flat[row, k]
                good &= (columns.low[k] <= value) & (value <= columns.high[k])
            if not good:
                return BAD_OBSERVATION
        return FINE

    def judge(columns: Any, i: int, strict: int, otherwise: int) -> int:
        fault = fault_of(columns, i) if strict else FINE
        if draws and columns.states[i].stage == EMPTY_RANGE:
            fault = BAD_RANGE
        if fault != FINE:
            columns.faults[i] = fault
            return FAULT
        return otherwise

    def begin(columns: Any, tables: Any, i: int, slot: int, per_env: int, strict: int) -> int:
        state, params = columns.states[i], columns.params[i * per_env]
        start(columns, tables, i, slot, state, params)
        look(columns, tables, i, state, params)
        settle(columns, i, False, False)
        for row in range(i * agents, i * agents + agents):
            columns.rewards[row] = 0.0
        return judge(columns, i, strict, NOTHING)

    def finish(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any, mode: int) -> None:
        for agent in range(agents):
            columns.last_returns[i * agents + agent] = state.returns[agent]
            columns.last_lengths[i * agents + agent] = state.steps
        if mode == NEXT_STEP:
            state.stage = RESET_NEXT
        elif mode == DISABLED:
            state.stage = OVER
        else:
            for row in range(i * agents, i * agents + agents):
                columns.final_infos[row] = columns.infos[row]
                for k in range(size):
                    columns.flat_finals[row, k] = columns.flat[row, k]
                for k in range(choices):
                    columns.final_masks[row, k] = columns.masks[row, k]
            start(columns, tables, i, slot, state, params)
            look(columns, tables, i, state, params)

    def stand(columns: Any, tables: Any, i: int, slot: int, per_env: int, strict: int) -> int:
        """For an env that is not running."""
        if columns.states[i].stage == RESET_NEXT:
            return begin(columns, tables, i, slot, per_env, strict)
        columns.faults[i] = NOT_RUNNING
        return FAULT

    def advance(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        if i < 0:  # never; but now the compiler knows, and leaves out Python's counting from the end in every index
            return NOTHING
        if columns.states[i].stage != RUNNING:
            return stand(columns, tables, i, slot, per_env, strict)
        return advance_running(columns, tables, i, slot, per_env, mode, strict)

    def advance_running(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        state, params = columns.states[i], columns.params[i * per_env]
        terminated = act(columns, tables, i, slot, state, params)
        return conclude(columns, tables, i, slot, per_env, mode, strict, terminated)

    def advance_if_easy(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        if columns.states[i].stage != RUNNING:
            return stand(columns, tables, i, slot, per_env, strict)
        kind, terminated = act_if_easy(columns, tables, i, columns.states[i], columns.params[i * per_env])
        if kind != 0:
            return HARD + min(max(kind, 1), kinds) - 1
        return conclude(columns, tables, i, slot, per_env, mode, strict, terminated)

    def conclude(
        columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int, terminated: bool
    ) -> int:
        """All that follows the world's own step."""
        state, params = columns.states[i], columns.params[i * per_env]
        state.steps += 1
        if informs:
            columns.spoke[i] = True
        truncated = params.time_limit > 0 and state.steps >= params.time_limit
        look(columns, tables, i, state, params)
        settle(columns, i, terminated, truncated)
        outcome = judge(columns, i, strict, NOTHING)
        if outcome == NOTHING and (terminated or truncated):
            finish(columns, tables, i, slot, state, params, mode)
            return judge(columns, i, strict, ENDED) if mode == SAME_STEP else ENDED
        return outcome

    return Parts(advance, advance_if_easy, advance_running, begin)
