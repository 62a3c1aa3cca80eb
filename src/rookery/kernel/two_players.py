"""A kernel world with two agents as one env that holds both players.

This is its two-player form, in which opponents are trained and evaluated: the observations, rewards and infos are those
of player one, the infos also hold what player two observes and who is winning, and an action holds both players'
actions, player one's first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rookery.errors import OptionError, WorldError
from rookery.kernel.declarations import Form
from rookery.kernel.random import integer
from rookery.kernel.translate import Function, defined, for_each_number
from rookery.kernel.world import KernelWorld, adapt
from rookery.kernel.world_calls import build_clear, mask_size, with_truncated

SIDE = "player_one_agent"  # the parameter: which agent of the world player one is
EITHER = -1  # its value for "drawn in each episode"
OWN_FIELDS = {SIDE: "i8", "agent_returns": ("f8", (2,))}


class TwoPlayerWorld(KernelWorld):
    """The two-player form of a world. Its parameters are the world's, and `player_one_agent`: 0, 1, or -1 if the agent
    that player one is should be drawn in each episode.

    Infos are player one's, and `obs_agent_two`, `return_agent_two` (of the episode so far), `winner` (1 if player one
    is winning, -1 if it is losing, 0 otherwise; by the returns of both agents, unless the world has an info of that
    name) and, if the world has action masks, `action_mask` with the masks of both players, one behind the other.
    """

    def __init__(self, world: KernelWorld, player_one_agent: int = 0) -> None:
        _check(world)
        # No `super().__init__`: everything is that of a world that was checked when it was made.
        self.__dict__.update({name: value for name, value in vars(world).items() if name not in _NOT_COPIED})
        self.world = world
        for name in ("observation_space", "tables", "aliases", "time_limit", "clips_actions", "metadata"):
            setattr(self, name, getattr(world, name))
        self.action_space = both_actions(world)
        self.state = {**world.state, **OWN_FIELDS}
        self.scratch = {**world.scratch, **_scratch(world)}
        self.info = {**world.info, **_infos(world)}
        self.parameters = {**world.parameters, SIDE: 0}
        self.values = {**world.values, SIDE: 0}
        self._forms = {**world._forms, SIDE: Form("i8")}
        self.values.update(self.encode({SIDE: player_one_agent}))
        self._set_functions()

    @property
    def name(self) -> str:
        return self.world.name

    def with_tables(self, **tables: Any) -> TwoPlayerWorld:
        other = super().with_tables(**tables)
        assert isinstance(other, TwoPlayerWorld)
        other.world = self.world.with_tables(**tables)  # a pickled form is made of its world again
        return other

    def encode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        side = values.get(SIDE, 0)
        if side not in (0, 1, EITHER):
            raise OptionError(f"{self.name}: {SIDE} should be 0, 1, or -1 (drawn in each episode), got {side!r}")
        rest = {name: value for name, value in values.items() if name != SIDE}
        return {**self.world.encode(rest), **({SIDE: int(side)} if SIDE in values else {})}

    def changed(self, **values: Any) -> TwoPlayerWorld:
        """The same with other values of some parameters."""
        other = copy(self)
        other.values = {**self.values, **self.encode(values)}
        return other

    def render(self, state: Any, params: Any, mode: str) -> Any:
        return self.world.render(state, params, mode)

    def close(self) -> None:
        """Close the world's window, if it has one."""
        close = getattr(self.world, "close", None)
        if close is not None:
            close()

    def __copy__(self) -> TwoPlayerWorld:
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))
        return other

    def __reduce__(self) -> Any:
        return _restored, (self.world, self.values)

    def _set_functions(self) -> None:
        world = self.world
        world_reset, world_observe = adapt(world.reset, "reset"), adapt(world.observe, "observe")
        world_step, set_actions = with_truncated(world, "step"), _build_set_actions(world)
        clear_info, write_info = build_clear(world.info_dtype), _build_write_info(world)

        def reset(state: Any, params: Any, tables: Any, scratch: Any, info: Any, memory: Any) -> None:
            side = params.player_one_agent
            if side < 0:
                side = integer(state, 0, 2)
            state.player_one_agent = side
            for agent in range(2):
                clear_info(scratch.agent_infos[agent])
            world_reset(state, params, tables, scratch, scratch.agent_infos, memory)
            write_info(state, params, tables, scratch, info, memory)

        def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any, memory: Any) -> Any:
            side = state.player_one_agent
            set_actions(scratch.agent_actions, action, side)
            for agent in range(2):
                clear_info(scratch.agent_infos[agent])
                scratch.agent_rewards[agent] = 0.0
            infos, rewards = scratch.agent_infos, scratch.agent_rewards
            terminated, truncated = world_step(
                state, scratch.agent_actions, params, tables, scratch, infos, rewards, memory
            )
            for agent in range(2):
                state.agent_returns[agent] += scratch.agent_rewards[agent]
            state.steps += 1  # as it will be when player one observes; the engine counts after this function
            write_info(state, params, tables, scratch, info, memory)
            state.steps -= 1
            return scratch.agent_rewards[side], terminated, truncated

        def observe(state: Any, out: Any, params: Any, tables: Any, scratch: Any, memory: Any) -> None:
            world_observe(state, out, state.player_one_agent, params, tables, scratch, memory)

        self.reset, self.step, self.observe = reset, step, observe
        self.action_mask = self.easy = self.turn = None


_NOT_COPIED = ("action_mask", "easy", "turn", "truncates")  # of the instance; the form has its own


def _restored(world: KernelWorld, values: Mapping[str, Any]) -> TwoPlayerWorld:
    form = TwoPlayerWorld(world)
    form.values.update(values)
    return form


def both_actions(world: KernelWorld) -> Space:
    """The space of both players' actions, one behind the other."""
    space = world.action_space
    if isinstance(space, spaces.Discrete):
        return spaces.MultiDiscrete([space.n] * 2, dtype=space.dtype.type, start=[space.start] * 2)
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        return spaces.MultiDiscrete(np.tile(space.nvec, 2), dtype=space.dtype.type, start=np.tile(space.start, 2))
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return spaces.Box(np.tile(space.low, 2), np.tile(space.high, 2), dtype=space.dtype.type)
    raise WorldError(
        f"{world.name} cannot be played against opponents: its action space should be Discrete, MultiDiscrete or a Box "
        f"of one dimension, got {space}"
    )


def _check(world: KernelWorld) -> None:
    if world.num_agents != 2:
        raise WorldError(
            f"{world.name} has {world.num_agents} agents: games against opponents, tournaments and the league need "
            "num_agents = 2. Without opponents, a run trains one policy for all agents"
        )
    if not isinstance(world.observation_space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        raise WorldError(
            f"{world.name} cannot be played against opponents: observations should be one array, got "
            f"{world.observation_space}"
        )
    taken = [name for name in (*OWN_FIELDS, *_scratch(world)) if name in (*world.state, *world.scratch)]
    if taken:
        raise WorldError(f"{world.name}: the two-player form uses the name {taken[0]!r}; choose another for the field")


def _scratch(world: KernelWorld) -> dict[str, Any]:
    space = world.action_space
    return {
        "agent_actions": (np.dtype(space.dtype), (2, *(space.shape or ()))),
        "agent_rewards": ("f8", (2,)),
        "agent_infos": (world.info_dtype, (2,)),
    }


def _infos(world: KernelWorld) -> dict[str, Any]:
    """The info columns of the form beside the world's own."""
    space = world.observation_space
    columns: dict[str, Any] = {"obs_agent_two": (np.dtype(space.dtype), tuple(space.shape or (1,)))}
    if "winner" not in world.info:
        columns["winner"] = "i8"
    columns["return_agent_two"] = "f8"
    if world.action_mask is not None:
        columns["action_mask"] = ("i1", (2 * mask_size(world),))
    return columns


def _build_set_actions(world: KernelWorld) -> Function:
    """`set_actions(by_agent, action, side)`: both players' actions as those of the world's agents."""
    size = math.prod(world.action_space.shape or ())

    def set_numbers(by_agent: Any, action: Any, side: int) -> None:
        by_agent[side], by_agent[1 - side] = action[0], action[1]

    def set_vectors(by_agent: Any, action: Any, side: int) -> None:
        for k in range(size):
            by_agent[side, k], by_agent[1 - side, k] = action[k], action[size + k]

    return set_vectors if world.action_space.shape else set_numbers


def _build_write_info(world: KernelWorld) -> Function:
    """`write_info(state, params, tables, scratch, info, memory)`: the infos of player one, from those of the agents."""
    copy_info, write_masks = _build_copy(world), _build_write_masks(world)
    observe, judges = adapt(world.observe, "observe"), "winner" not in world.info

    def write_winner(state: Any, info: Any, side: int) -> None:
        lead = state.agent_returns[side] - state.agent_returns[1 - side]
        info.winner = 1 if lead > 0.0 else -1 if lead < 0.0 else 0

    def leave_winner(state: Any, info: Any, side: int) -> None:
        """The world has written it."""

    judge = write_winner if judges else leave_winner

    def write_info(state: Any, params: Any, tables: Any, scratch: Any, info: Any, memory: Any) -> None:
        side = state.player_one_agent
        copy_info(scratch.agent_infos[side], info)
        judge(state, info, side)
        info.return_agent_two = state.agent_returns[1 - side]
        observe(state, info.obs_agent_two, 1 - side, params, tables, scratch, memory)
        write_masks(state, info, side, params, tables)

    return write_info


def _build_write_masks(world: KernelWorld) -> Function:
    """`write_masks(state, info, side, params, tables)`: the masks of both players, player one's first."""
    size = mask_size(world)

    def no_masks(state: Any, info: Any, side: int, params: Any, tables: Any) -> None:
        """For a world without masks."""

    if world.action_mask is None:
        return no_masks
    action_mask = adapt(world.action_mask, "action_mask")

    def write_masks(state: Any, info: Any, side: int, params: Any, tables: Any) -> None:
        action_mask(state, info.action_mask[:size], side, params, tables)
        action_mask(state, info.action_mask[size:], 1 - side, params, tables)

    return write_masks


def _build_copy(world: KernelWorld) -> Function:
    """`copy(source, target)`: copies every info column of the world from one record to another."""
    shapes = {name: world.info_dtype[name].shape for name in world.info}
    lines = for_each_number(shapes, lambda _, at: f"target.{at} = source.{at}")
    return defined("copy(source, target)", lines, __name__=__name__)
