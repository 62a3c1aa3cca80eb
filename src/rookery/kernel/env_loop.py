"""One env's step around a world's functions: autoreset, time limits, episode returns and checks of values.

Like the worlds, this is plain Python that is compiled: `build` returns closures over a world's functions, and
`translate` compiles them for a CPU or a GPU. No env reads another env's data, so envs may be stepped in any order, by
any number of threads.
"""

from __future__ import annotations

from collections import namedtuple
from types import FunctionType
from typing import Any, NamedTuple

from rookery.kernel.declarations import FIRST_PROBLEM
from rookery.kernel.observation_form import build_check, build_copy
from rookery.kernel.random import EMPTY_RANGE, mark_empty_range
from rookery.kernel.tables import BAD_WINDOW, build_window
from rookery.kernel.translate import Function, reachable
from rookery.kernel.world import ROLES, KernelWorld, adapt
from rookery.kernel.world_calls import (
    build_clear,
    build_easy_step,
    build_masks,
    build_reset,
    build_settling,
    build_step,
    mask_size,
)

# An env's `stage`. After a draw from an empty range it is EMPTY_RANGE, and after `mark_problem(state, k)` it is
# FIRST_PROBLEM + k. Between the two parts of a step, it is the bitwise not of what it was after the first, so negative.
RUNNING, RESET_NEXT, OVER = 0, 1, 2
# Gymnasium's autoreset modes.
NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2
# The outcome of one env's step; a batch returns the bitwise or of all outcomes.
NOTHING, ENDED, FAULT = 0, 1, 2
HARD = 4  # the step was not made because it is hard: HARD for the first kind, HARD + 1 for the second, and so on
# Values of `faults`. STOPPED is set at the first env of a range in which one env raised an exception.
NO_FAULT, BAD_OBSERVATION, BAD_REWARD, BAD_ACTION, NOT_RUNNING, STOPPED, BAD_RANGE, PROBLEM = range(8)
FAILED_CHECK = 8  # `failures` has more

COLUMNS = (
    "states",  # (n,) records
    "memory",  # (n, bytes); on a GPU each byte of all envs together
    "params",  # (1,) or (n,) records
    "next_params",  # as `params`: those of the next episode, where `staged` is set (on a GPU only)
    "staged",  # (n,)
    "scratch",  # (slots,) records
    "infos",  # (rows,) records; a row is an agent of an env
    "final_infos",  # (rows,) records, of episodes that ended (SAME_STEP)
    "info_mask",  # (n,) whether infos were written in this step
    "reset_mask",  # (n,) which envs the command RESET resets
    "actions",  # (n, ...)
    "flat_actions",  # (n, size): the same memory, flat
    "action_low",  # (size,) the bounds of the action space
    "action_high",
    "observations",  # (rows, ...); or (rows,) records, if the space is a Dict
    "flat",  # (rows, size); not used if the space is a Dict, and neither is flat_finals
    "finals",  # (rows, ...): last observations of episodes that ended (SAME_STEP)
    "flat_finals",
    "low",  # (size,) the bounds of the observation space; or (1,) records
    "high",
    "rewards",  # (rows,)
    "terminated",  # (rows,)
    "truncated",  # (rows,)
    "masks",  # (rows, actions)
    "final_masks",  # of episodes that ended (SAME_STEP)
    "last_returns",  # (rows,) of the episode that ended last
    "last_lengths",  # (rows,)
    "faults",  # (n,)
    "failures",  # (n, 3) of an env whose compiled code failed: the place, and two numbers (see failed_checks.py)
    "window_starts",  # (rows,) where the windows of tables begin, if they are copied later
    "final_starts",  # the same, of the last observations of episodes
)
Columns: Any = namedtuple("Columns", COLUMNS)  # type: ignore[misc]


class EnvFunctions(NamedTuple):
    """The operations on env i, each a function of (columns, tables, i, slot, per_env, mode, strict) -> outcome."""

    step_env: Function
    step_env_if_easy: Function  # returns HARD or more if the step is not an easy one
    step_running_env: Function  # for an env that is known to be running
    reset_env: Function  # starts an episode; has no argument `mode`
    settle_env: Function  # observes an episode's first state again, after a simulation has settled it; has no `mode`


def functions_of(world: KernelWorld) -> dict[FunctionType, None]:
    """A world's functions, and all functions that they call, as keys. Their order depends on their code alone."""
    found: dict[FunctionType, None] = {}
    for function in (getattr(world, role, None) for role in ROLES):
        if isinstance(function, FunctionType):
            reachable(function, found)
    return found


def build(world: KernelWorld, windows_later: bool = False, takes_staged: bool = False) -> EnvFunctions:
    """The operations on an env of this world. With `windows_later`, another kernel copies the windows of tables. With
    `takes_staged`, an episode begins with the parameters that are staged for it."""
    window_start = adapt(world.window_start, "window_start") if world.window_start is not None else None
    write_window, keep_window = build_window(world, window_start, windows_later)
    observe_agents = _build_observe(world, write_window)
    begin_episode = _build_begin(world, observe_agents, takes_staged)
    keep_final = build_copy(world.observation_space, world.table_window if windows_later else None)
    finish_episode = _build_finish_episode(world, begin_episode, keep_window, keep_final)
    check_values = _build_check_values(world)
    finish_step = _build_finish_step(world, observe_agents, check_values, finish_episode)
    world_step, world_easy_step, world_settle = build_step(world), build_easy_step(world), build_settling(world)
    agents, kinds = world.num_agents, world.hard_kinds

    def reset_env(columns: Any, tables: Any, i: int, slot: int, per_env: int, strict: int) -> int:
        begin_episode(columns, tables, i, slot, per_env, columns.states[i])
        for row in range(i * agents, i * agents + agents):
            columns.rewards[row] = 0.0
            columns.terminated[row] = False
            columns.truncated[row] = False
        return check_values(columns, i, strict)

    def settle_env(columns: Any, tables: Any, i: int, slot: int, per_env: int, strict: int) -> int:
        state, params = columns.states[i], columns.params[i * per_env]
        world_settle(columns, tables, i, slot, state, params)
        observe_agents(columns, tables, i, slot, state, params)
        return check_values(columns, i, strict)

    def step_idle_env(columns: Any, tables: Any, i: int, slot: int, per_env: int, strict: int) -> int:
        """The step of an env that is not running."""
        if columns.states[i].stage == RESET_NEXT:
            return reset_env(columns, tables, i, slot, per_env, strict)
        if columns.faults[i] == NO_FAULT:  # else the first part of the step failed
            columns.faults[i] = NOT_RUNNING
        return FAULT

    def step_env(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        if i < 0:  # never true; but it lets the compiler drop the handling of negative indices everywhere
            return NOTHING
        if columns.states[i].stage > RUNNING:
            return step_idle_env(columns, tables, i, slot, per_env, strict)
        return step_running_env(columns, tables, i, slot, per_env, mode, strict)

    def step_running_env(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        state, params = columns.states[i], columns.params[i * per_env]
        ends = world_step(columns, tables, i, slot, state, params)
        return finish_step(columns, tables, i, slot, per_env, mode, strict, ends)

    def step_env_if_easy(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        if columns.states[i].stage != RUNNING:
            return step_idle_env(columns, tables, i, slot, per_env, strict)
        kind, terminated, truncated = world_easy_step(
            columns, tables, i, columns.states[i], columns.params[i * per_env]
        )
        if kind != 0:
            return HARD + min(max(kind, 1), kinds) - 1
        return finish_step(columns, tables, i, slot, per_env, mode, strict, (terminated, truncated))

    return EnvFunctions(step_env, step_env_if_easy, step_running_env, reset_env, settle_env)


def build_begin_step(begin_step: Function) -> Function:
    """Makes all of a running env's step but its last part, by this function of the world; `step_env` makes the rest."""
    world_begin = adapt(begin_step, "begin_step")

    def begin_env(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        state = columns.states[i]
        if state.stage == RUNNING:
            world_begin(state, columns.actions[i], columns.params[i * per_env], tables, columns.scratch[slot])
            state.stage = ~state.stage
        return NOTHING

    return begin_env


def _build_observe(world: KernelWorld, write_window: Function) -> Function:
    """Writes observations and action masks of all agents."""
    agents, observe, write_masks = world.num_agents, adapt(world.observe, "observe"), build_masks(world)

    def observe_agents(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        write_window(columns, tables, i, state, params)
        for agent in range(agents):
            out, scratch = columns.observations[i * agents + agent], columns.scratch[slot]
            observe(state, out, agent, params, tables, scratch, columns.memory[i])
        write_masks(columns, i, state, params, tables)

    return observe_agents


def _build_begin(world: KernelWorld, observe_agents: Function, takes_staged: bool) -> Function:
    """Begins an episode, up to its first observation."""
    agents, clear, world_reset = world.num_agents, build_clear(world.state_dtype), build_reset(world)

    def take_staged(columns: Any, i: int, per_env: int) -> None:
        if columns.staged[i] != 0:
            columns.staged[i] = 0
            columns.params[i * per_env] = columns.next_params[i * per_env]

    def leave_params(columns: Any, i: int, per_env: int) -> None:
        """On a CPU, the engine sets parameters between two steps."""

    choose_params = take_staged if takes_staged else leave_params

    def begin_episode(columns: Any, tables: Any, i: int, slot: int, per_env: int, state: Any) -> None:
        choose_params(columns, i, per_env)
        params = columns.params[i * per_env]
        clear(state)
        for agent in range(agents):
            state.returns[agent] = 0.0
        state.episode += 1
        state.draws = 0
        state.steps = 0
        state.stage = RUNNING
        world_reset(columns, tables, i, slot, state, params)
        observe_agents(columns, tables, i, slot, state, params)

    return begin_episode


def _build_check_values(world: KernelWorld) -> Function:
    """Looks for faults in what a step or reset wrote: FAULT or NOTHING."""
    agents, in_space = world.num_agents, build_check(world.observation_space, world.table_window)
    draws, marks = mark_empty_range in functions_of(world), bool(world.problems)
    windowed = world.table_window is not None

    def find_fault(columns: Any, i: int) -> int:
        for row in range(i * agents, i * agents + agents):
            reward = columns.rewards[row]
            if reward - reward != 0.0:  # true for NaN and infinity
                return BAD_REWARD
            if not in_space(columns, row):
                return BAD_OBSERVATION
        return NO_FAULT

    def check_values(columns: Any, i: int, strict: int) -> int:
        fault = find_fault(columns, i) if strict else NO_FAULT
        if draws and columns.states[i].stage == EMPTY_RANGE:
            fault = BAD_RANGE
        if marks and columns.states[i].stage >= FIRST_PROBLEM:
            if strict:
                fault = PROBLEM
            else:
                columns.states[i].stage = RUNNING
        if windowed and columns.faults[i] == BAD_WINDOW:
            fault = BAD_WINDOW
        if fault != NO_FAULT:
            columns.faults[i] = fault
            return FAULT
        return NOTHING

    return check_values


def _build_finish_episode(
    world: KernelWorld, begin_episode: Function, keep_window: Function, keep_final: Function
) -> Function:
    """Stores the episode's return and length. In the mode SAME_STEP, it keeps what was observed last, and the next
    episode begins."""
    agents, choices = world.num_agents, mask_size(world)

    def finish_episode(columns: Any, tables: Any, i: int, slot: int, per_env: int, state: Any, mode: int) -> None:
        for agent in range(agents):
            columns.last_returns[i * agents + agent] = state.returns[agent]
            columns.last_lengths[i * agents + agent] = state.steps
        if mode == NEXT_STEP:
            state.stage = RESET_NEXT
        elif mode == DISABLED:
            state.stage = OVER
        else:
            keep_window(columns, i)
            for row in range(i * agents, i * agents + agents):
                columns.final_infos[row] = columns.infos[row]
                keep_final(columns, row)
                for k in range(choices):
                    columns.final_masks[row, k] = columns.masks[row, k]
            begin_episode(columns, tables, i, slot, per_env, state)

    return finish_episode


def _build_finish_step(
    world: KernelWorld, observe_agents: Function, check_values: Function, finish_episode: Function
) -> Function:
    """Everything after the world's own step: time limit, observations, checks and the end of an episode."""
    agents, informs = world.num_agents, bool(world.info)

    def finish_step(
        columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int, ends: tuple[Any, Any]
    ) -> int:
        terminated, truncated_by_world = ends
        state, params = columns.states[i], columns.params[i * per_env]
        state.steps += 1
        if informs:
            columns.info_mask[i] = True
        out_of_time = params.time_limit > 0 and state.steps >= params.time_limit
        truncated = True if truncated_by_world else out_of_time
        observe_agents(columns, tables, i, slot, state, params)
        for row in range(i * agents, i * agents + agents):
            columns.terminated[row] = terminated
            columns.truncated[row] = truncated
        outcome = check_values(columns, i, strict)
        if outcome == NOTHING and (terminated or truncated):
            finish_episode(columns, tables, i, slot, per_env, state, mode)
            if mode == SAME_STEP:
                outcome = check_values(columns, i, strict)
            return ENDED if outcome == NOTHING else outcome
        return outcome

    return finish_step
