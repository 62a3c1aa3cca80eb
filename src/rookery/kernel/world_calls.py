"""Calls a world's functions with the arguments they take, and stores what they return."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.step_values import truncates
from rookery.kernel.translate import Function, defined, for_each_number
from rookery.kernel.world import ARGUMENTS, RESERVED, KernelWorld, adapt


def build_reset(world: KernelWorld) -> Function:
    """Calls the world's reset; sets `info_mask` if it writes infos."""
    agents, reset, informs = world.num_agents, adapt(world.reset, "reset"), world.informs_at_reset
    clear_info = build_clear(world.info_dtype)

    def reset_single(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        if informs:
            clear_info(columns.infos[i])
        reset(state, params, tables, columns.scratch[slot], columns.infos[i], columns.memory[i])
        columns.info_mask[i] = informs

    def reset_multi(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        first = i * agents
        if informs:
            for row in range(first, first + agents):
                clear_info(columns.infos[row])
        infos = columns.infos[first : first + agents]
        reset(state, params, tables, columns.scratch[slot], infos, columns.memory[i])
        columns.info_mask[i] = informs

    return reset_single if agents == 1 else reset_multi


def build_settling(world: KernelWorld) -> Function:
    """Calls what a simulated world does with an episode's first state."""
    if world.after_settling is None:
        return no_settling
    after_settling = adapt(world.after_settling, "after_settling")

    def settle(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        after_settling(state, params, tables, columns.scratch[slot], columns.infos[i])

    return settle


def no_settling(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
    """For a world without a simulation."""


def build_step(world: KernelWorld) -> Function:
    """Calls the world's step and stores its rewards; returns `terminated` and the world's own `truncated`."""
    agents, step = world.num_agents, with_truncated(world, "step")
    clear_info = build_clear(world.info_dtype)

    def step_single(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> tuple[bool, bool]:
        clear_info(columns.infos[i])
        reward, terminated, truncated = step(
            state, columns.actions[i], params, tables, columns.scratch[slot], columns.infos[i],
            columns.rewards[i : i + 1], columns.memory[i],
        )  # fmt: skip
        columns.rewards[i] = reward
        state.returns[0] += reward
        return terminated, truncated

    def step_multi(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> tuple[bool, bool]:
        first = i * agents
        for row in range(first, first + agents):
            clear_info(columns.infos[row])
            columns.rewards[row] = 0.0
        rewards, infos = columns.rewards[first : first + agents], columns.infos[first : first + agents]
        terminated, truncated = step(
            state, columns.actions[i], params, tables, columns.scratch[slot], infos, rewards, columns.memory[i]
        )
        for agent in range(agents):
            state.returns[agent] += rewards[agent]
        return terminated, truncated

    return step_single if agents == 1 else step_multi


def build_easy_step(world: KernelWorld) -> Function:
    """Calls the world's easy: returns (0, terminated, truncated), or (kind of hard step, anything, anything)."""
    if world.easy is None:
        return no_easy_step
    agents, easy = world.num_agents, with_truncated(world, "easy")
    clear_info = build_clear(world.info_dtype)

    def step_single(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[int, bool, bool]:
        clear_info(columns.infos[i])
        kind, reward, terminated, truncated = easy(
            state, columns.actions[i], params, tables, columns.infos[i], columns.rewards[i : i + 1]
        )
        if kind == 0:
            columns.rewards[i] = reward
            state.returns[0] += reward
        return kind, terminated, truncated

    def step_multi(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[int, bool, bool]:
        first = i * agents
        rewards, infos = columns.rewards[first : first + agents], columns.infos[first : first + agents]
        for row in range(first, first + agents):
            clear_info(columns.infos[row])
            columns.rewards[row] = 0.0
        kind, terminated, truncated = easy(state, columns.actions[i], params, tables, infos, rewards)
        if kind == 0:
            for agent in range(agents):
                state.returns[agent] += rewards[agent]
        return kind, terminated, truncated

    return step_single if agents == 1 else step_multi


def no_easy_step(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[int, bool, bool]:
    """For a world without `easy`."""
    return 1, False, False


def with_truncated(world: KernelWorld, role: str) -> Function:
    """The world's `step` or `easy`, with all arguments of the role. It returns `truncated` last: False, if the world's
    own function does not return it."""
    function, arguments = adapt(getattr(world, role), role), ", ".join(ARGUMENTS[role])
    if truncates(world):
        return function
    returned = ", ".join(["kind"] * (role == "easy") + ["reward"] * (world.num_agents == 1) + ["terminated"])
    lines = [f"    {returned} = function({arguments})", f"    return {returned}, False"]
    return defined(f"call({arguments})", lines, function=function, __name__=__name__)


def build_masks(world: KernelWorld) -> Function:
    """Writes the action masks, if the world has any."""
    if world.action_mask is None:
        return no_masks
    agents, action_mask = world.num_agents, adapt(world.action_mask, "action_mask")

    def write_masks(columns: Any, i: int, state: Any, params: Any, tables: Any) -> None:
        for agent in range(agents):
            action_mask(state, columns.masks[i * agents + agent], agent, params, tables)

    return write_masks


def no_masks(columns: Any, i: int, state: Any, params: Any, tables: Any) -> None:
    """For a world without action masks."""


def build_clear(dtype: np.dtype) -> Function:
    """A function that sets every field of a record to 0, except the engine's: no episode sees data of the last one."""
    shapes = {name: dtype[name].shape for name in dtype.names or () if name not in RESERVED}
    return defined("clear(record)", for_each_number(shapes, lambda _, at: f"record.{at} = 0"), __name__=__name__)


def mask_size(world: KernelWorld) -> int:
    """The length of an action mask; 0 in a world without masks."""
    space: Any = world.action_space
    if world.action_mask is None:
        return 0
    return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else int(space.n)


def build_action_check(world: KernelWorld) -> Function:
    """`fits(columns, i)`: whether the action of env i is in the action space."""
    size = world.num_agents * math.prod(world.action_space.shape or ())

    def fits(columns: Any, i: int) -> bool:
        good = True
        for k in range(size):
            action = columns.flat_actions[i, k]
            good &= (columns.action_low[k] <= action) & (action <= columns.action_high[k])
        return good

    return fits
