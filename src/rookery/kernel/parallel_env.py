"""A kernel world with several agents as a PettingZoo parallel env."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from rookery.errors import MissingExtra, SpaceError, UsageError, WorldError
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.kernel_env import KernelEnv, find_world
from rookery.kernel.observation_form import one_observation
from rookery.kernel.world import RESERVED, KernelWorld

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtra(
        f"rookery.kernel.parallel_env needs PettingZoo ({error}): pip install 'rookery[pettingzoo]'"
    ) from None


class KernelParallelEnv(ParallelEnv):
    """One env of a kernel world, with its agents by name. It returns the same numbers as in a batch of any size.

    The agents' names are the world's `agent_names`, or agent_0, agent_1, ... All agents start and end together.

    Args:
        world: As for `KernelEnv`.
        render_mode: One of the world's render modes.
        plain: Run the world's functions as plain Python, to debug them.
        **parameters: The world's parameters, if `world` is not an instance.

    Example:
        >>> env = KernelParallelEnv("rookery.worlds.hockey.world:HockeyRows", plain=True)
        >>> observations, infos = env.reset(seed=3)
        >>> actions = {agent: [1.0, 0.0, 0.0, 0.0] for agent in env.agents}
        >>> observations, rewards, terminations, truncations, infos = env.step(actions)
        >>> sorted(observations)
        ['player_one', 'player_two']
    """

    def __init__(self, world: Any, render_mode: str | None = None, plain: bool = False, **parameters: Any) -> None:
        self._rows = _Rows(find_world(world, parameters), render_mode, plain)
        self.world, self.render_mode = self._rows.world, render_mode
        self.metadata = {"name": self.world.name, "is_parallelizable": True, **self.world.metadata}
        self.possible_agents = _agent_names(self.world)
        self.agents: list[str] = []
        # Each agent has its own spaces, so that they can be seeded and sampled separately.
        self.observation_spaces = {agent: copy.deepcopy(self.world.observation_space) for agent in self.possible_agents}
        self.action_spaces = {agent: copy.deepcopy(self.world.action_space) for agent in self.possible_agents}
        self.state_space = spaces.Box(-np.inf, np.inf, self.state().shape, np.float64)

    def observation_space(self, agent: str) -> Space:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode. `options` may hold values for the world's parameters; they stay until set again. Other
        options are ignored, as PettingZoo requires."""
        names = {*self.world.values, *self.world.aliases}
        known = {name: value for name, value in (options or {}).items() if name in names}
        self._rows.reset(seed=seed, options=known)
        self.agents = list(self.possible_agents)
        infos = self._rows.infos() if self.world.informs_at_reset else self._rows.masks()
        return self._named(self._rows.observations()), self._named(infos)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Step the world with an action from every agent; returns observations, rewards, terminations, truncations and
        infos, each by agent."""
        if not self.agents:
            raise UsageError("the env is not in an episode: call reset()")
        self._rows.step(self._in_order(actions))
        results = (self._rows.observations(), *self._rows.outcomes(), self._rows.infos())
        if self._rows.ended():
            self.agents = []
        return tuple(self._named(part) for part in results)

    def render(self) -> Any:
        """A picture of the env's current state."""
        return self._rows.render()

    def close(self) -> None:
        self._rows.close()

    def state(self) -> np.ndarray:
        """All fields of the world's own state, concatenated, as doubles."""
        return self._rows.own_fields()

    def _named(self, by_row: list[Any]) -> dict[str, Any]:
        return dict(zip(self.possible_agents, by_row, strict=True))

    def _in_order(self, actions: Mapping[str, Any]) -> list[Any]:
        """The agents' actions in the order of rows, with their shapes checked: NumPy would broadcast smaller ones."""
        for agent in self.agents:
            if agent not in actions:
                raise SpaceError(f"the action of {agent!r} is missing; every step needs one per agent: {self.agents}")
            if np.shape(actions[agent]) != self.action_spaces[agent].shape:
                raise SpaceError(f"the action of {agent!r}, {actions[agent]!r}, is not in {self.action_spaces[agent]}")
        return [actions[agent] for agent in self.agents]


class _Rows(KernelEnv):
    """An env of several agents. `reset` and `step` return the first agent's results; the other methods, one row per
    agent."""

    def __init__(self, world: KernelWorld, render_mode: str | None, plain: bool, bounds: bool | None = None) -> None:
        if world.num_agents < 2:
            raise WorldError(f"{world.name} has one agent: use rookery.kernel.kernel_env.KernelEnv")
        self._setup(EnvArrays(world, 1), render_mode, plain, bounds=bounds)

    def observations(self) -> list[Any]:
        return [one_observation(self.observation_space, row) for row in self._env_arrays.observations]

    def outcomes(self) -> tuple[list[float], list[bool], list[bool]]:
        """Rewards, terminations and truncations."""
        return (
            self._env_arrays.rewards.tolist(),
            self._env_arrays.terminated.tolist(),
            self._env_arrays.truncated.tolist(),
        )

    def ended(self) -> bool:
        return bool(self._env_arrays.terminated[0] or self._env_arrays.truncated[0])

    def masks(self) -> list[dict[str, Any]]:
        if self.world.action_mask is None:
            return [{} for _ in range(self.world.num_agents)]
        return [{"action_mask": mask.copy()} for mask in self._env_arrays.masks]

    def infos(self) -> list[dict[str, Any]]:
        by_row = zip(self._env_arrays.infos, self.masks(), strict=True)
        return [{name: info[name].copy() for name in self.world.info} | mask for info, mask in by_row]

    def own_fields(self) -> np.ndarray:
        record = self._env_arrays.states[0]
        own = [np.ravel(record[name]) for name in self.world.state_dtype.names or () if name not in RESERVED]
        return np.concatenate([np.zeros(0), *own])


def _agent_names(world: KernelWorld) -> list[str]:
    return list(getattr(world, "agent_names", None) or (f"agent_{k}" for k in range(world.num_agents)))
