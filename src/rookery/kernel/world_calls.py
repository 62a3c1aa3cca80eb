"""Calling a world's functions with what they ask for, and putting what they return where it belongs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.kernel.translate import Function
from rookery.kernel.world import RESERVED, KernelWorld, adapt


def build_resetter(world: KernelWorld) -> Function:
    """Calls the world's reset; notes whether it had anything to say."""
    agents, reset, informs = world.num_agents, adapt(world.reset, "reset"), world.informs_at_reset
    clear_info = build_clearer(world.info_dtype)

    def reset_alone(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        if informs:
            clear_info(columns.infos[i])
        reset(state, params, tables, columns.scratch[slot], columns.infos[i])
        columns.spoke[i] = informs

    def reset_together(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> None:
        first = i * agents
        if informs:
            for row in range(first, first + agents):
                clear_info(columns.infos[row])
        reset(state, params, tables, columns.scratch[slot], columns.infos[first : first + agents])
        columns.spoke[i] = informs

    return reset_alone if agents == 1 else reset_together


def build_actor(world: KernelWorld) -> Function:
    """Calls the world's step, and stores its rewards."""
    agents, step = world.num_agents, adapt(world.step, "step")
    clear_info = build_clearer(world.info_dtype)

    def act_alone(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> bool:
        clear_info(columns.infos[i])
        reward, terminated = step(
            state, columns.actions[i], params, tables, columns.scratch[slot], columns.infos[i], columns.rewards
        )
        columns.rewards[i] = reward
        state.returns[0] += reward
        return terminated

    def act_together(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> bool:
        first = i * agents
        for row in range(first, first + agents):
            clear_info(columns.infos[row])
            columns.rewards[row] = 0.0
        rewards, infos = columns.rewards[first : first + agents], columns.infos[first : first + agents]
        terminated = step(state, columns.actions[i], params, tables, columns.scratch[slot], infos, rewards)
        for agent in range(agents):
            state.returns[agent] += rewards[agent]
        return terminated

    return act_alone if agents == 1 else act_together


def build_easy_actor(world: KernelWorld) -> Function:
    """The same for a world's easy steps: returns 0, and whether it terminated, or which kind of hard step it is."""
    if world.easy is None:
        return never_easy
    agents, easy = world.num_agents, adapt(world.easy, "easy")
    clear_info = build_clearer(world.info_dtype)

    def act_alone(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[int, bool]:
        clear_info(columns.infos[i])
        kind, reward, terminated = easy(state, columns.actions[i], params, tables, columns.infos[i], columns.rewards)
        if kind == 0:
            columns.rewards[i] = reward
            state.returns[0] += reward
        return kind, terminated

    def act_together(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[int, bool]:
        first = i * agents
        rewards, infos = columns.rewards[first : first + agents], columns.infos[first : first + agents]
        for row in range(first, first + agents):
            clear_info(columns.infos[row])
            columns.rewards[row] = 0.0
        kind, terminated = easy(state, columns.actions[i], params, tables, infos, rewards)
        if kind == 0:
            for agent in range(agents):
                state.returns[agent] += rewards[agent]
        return kind, terminated

    return act_alone if agents == 1 else act_together


def never_easy(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[int, bool]:
    """Stands in where a world knows no easy steps."""
    return 1, False


def build_masker(world: KernelWorld) -> Function:
    """Writes the action masks, where the world has any."""
    if world.action_mask is None:
        return no_masks
    agents, action_mask = world.num_agents, adapt(world.action_mask, "action_mask")

    def write_masks(columns: Any, i: int, state: Any, params: Any, tables: Any) -> None:
        for agent in range(agents):
            action_mask(state, columns.masks[i * agents + agent], agent, params, tables)

    return write_masks


def no_masks(columns: Any, i: int, state: Any, params: Any, tables: Any) -> None:
    """Stands in where a world has no action masks."""


def build_clearer(dtype: np.dtype) -> Function:
    """A function that sets every field of a record to 0, but for the engine's own: no episode sees the one before."""
    lines = []
    for name in dtype.names or ():
        if name not in RESERVED:
            shape = dtype[name].shape
            index = ", ".join(f"k{d}" for d in range(len(shape)))
            loops = "".join(f"{'    ' * (d + 1)}for k{d} in range({size}):\n" for d, size in enumerate(shape))
            target = f"record.{name}[{index}]" if shape else f"record.{name}"
            lines.append(f"{loops}{'    ' * (len(shape) + 1)}{target} = 0\n")
    scope: dict[str, Any] = {"__name__": __name__}
    exec(f"def clear(record):\n{''.join(lines) or '    pass'}", scope)  # noqa: S102 - field names were checked before
    return scope["clear"]


def mask_size(world: KernelWorld) -> int:
    """How many places an action mask has; 0 in a world without masks."""
    return int(getattr(world.action_space, "n", 1)) if world.action_mask is not None else 0


def build_action_check(world: KernelWorld) -> Function:
    """`fits(columns, i)`: whether env i can be given its action."""
    size = world.num_agents * math.prod(world.action_space.shape or ())

    def fits(columns: Any, i: int) -> bool:
        good = True
        for k in range(size):
            action = columns.flat_actions[i, k]
            good &= (columns.action_low[k] <= action) & (action <= columns.action_high[k])
        return good

    return fits
