"""PettingZoo's envs as agent rows: many worlds, and every agent of every world one row of a `VectorEnv`.

A learner that plays all agents with one policy sees an ordinary batch. Row `world * len(agents) + k` is agent k of
a world. `infos["agent_mask"]` says which rows hold an agent that acts next; the others are zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rookery._parallel_env import ParallelEnvMaker
from rookery.engine.batch import join, leaves, split
from rookery.engine.engine import Engine
from rookery.engine.env_factory import resolve_given
from rookery.engine.make_vec import make_vec as make_engine
from rookery.engine.settings import autoreset, masked_worlds
from rookery.engine.step_report import add_info
from rookery.errors import OptionError, SpaceError

__all__ = ["AgentRows", "make_vec"]


def make_vec(parallel_env: Any, num_envs: int | None = None, **options: Any) -> AgentRows:
    """Many copies of a PettingZoo `ParallelEnv` or `AECEnv`, with one row per agent.

    In a turn-based game (`AECEnv`), a step of a world is one move. Agents that wait have a row too: their action is
    ignored, and where actions are discrete, their `action_mask` allows the first one only.

    Args:
        parallel_env: A class or callable that builds such an env, `"file.py:MyEnv"`, or a list of callables. All
            possible agents need the same spaces.
        num_envs: How many worlds; None finds out by measuring.
        **options: As for `rookery.make_vec`; `autoreset_mode` is always SAME_STEP. A PettingZoo env inside PettingZoo
            wrappers that draws from `random` or `numpy.random` needs `isolate_random=True` to be reproducible.

    Example:
        >>> import numpy as np, rookery.pettingzoo
        >>> from gymnasium.spaces import Box, Discrete
        >>> class Tag:  # has the methods of a ParallelEnv
        ...     metadata, possible_agents = {}, ["hunter", "prey"]
        ...     def observation_space(self, agent): return Box(0, 9, (1,), np.float32)
        ...     def action_space(self, agent): return Discrete(2)
        ...     def reset(self, seed=None, options=None):
        ...         self.agents = list(self.possible_agents)
        ...         return {a: np.zeros(1, np.float32) for a in self.agents}, {}
        ...     def step(self, actions):
        ...         seen = {a: np.full(1, action, np.float32) for a, action in actions.items()}
        ...         nobody = dict.fromkeys(self.agents, False)
        ...         return seen, {"hunter": 1.0, "prey": -1.0}, nobody, nobody, {}
        ...     def close(self): pass
        >>> envs = rookery.pettingzoo.make_vec(Tag, num_envs=3, backend="serial")
        >>> envs.num_worlds, envs.agents, envs.num_envs
        (3, ('hunter', 'prey'), 6)
        >>> observations, infos = envs.reset(seed=0)
        >>> observations, rewards, terminated, truncated, infos = envs.step([0, 1, 0, 1, 0, 1])
        >>> rewards
        array([ 1., -1.,  1., -1.,  1., -1.])
        >>> envs.close()
    """
    if autoreset(options.pop("autoreset_mode", AutoresetMode.SAME_STEP)) is not AutoresetMode.SAME_STEP:
        raise OptionError('agent rows need autoreset_mode="same_step": an env is reset in the step that ends it')
    source = resolve_given(parallel_env, num_envs, options.pop("env_kwargs", None))
    source = replace(source, makers=tuple(ParallelEnvMaker(maker) for maker in source.makers))
    return AgentRows(make_engine(source, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, **options))


class AgentRows(VectorEnv):
    """`num_worlds` worlds with the same `agents`, as `num_worlds * len(agents)` rows.

    - A row whose agent finishes has `terminated` or `truncated` set in that step, and its last observation in
      `infos["final_obs"]`.
    - When no agent of a world is left, the world is reset in the same step, and all its rows hold the new episode's
      first observations. Until then the rows of finished agents are zeros, False in `infos["agent_mask"]`, and their
      actions are ignored. Agents that have not appeared yet look the same.
    - Infos of agents are columns over rows.

    `engine` is the engine that runs the worlds, for everything else (`call`, `stats`, `finished_episodes`, ...). Its
    episode statistics count the sum of a world's rewards.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        ((self.agents, self.single_observation_space, self.single_action_space),) = engine.call_some([0], "agent_facts")
        self.num_worlds = engine.num_envs
        self.num_envs = self.num_worlds * len(self.agents)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata, self.render_mode = engine.metadata, engine.render_mode

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset all worlds, or those in `options["reset_mask"]` (by row, complete worlds only). World i gets
        `seed + i`; a list gives each world its own."""
        if options and "reset_mask" in options:
            chosen = masked_worlds(options["reset_mask"], self.num_envs, len(self.agents))
            options = {**options, "reset_mask": chosen}
        worlds, infos = self.engine.reset(seed=seed, options=options)
        alive = _flags(worlds["alive"])
        nobody = np.zeros(self.num_envs, np.bool_)
        return self._observations(worlds["observation"], alive), self._infos(infos, alive, nobody, nobody)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all worlds once."""
        worlds, _, world_terminated, world_truncated, world_infos = self.engine.step(self._per_world(actions))
        ended = world_terminated | world_truncated
        lasts = world_infos.pop("final_obs", None)
        rewards, terminated, truncated = (worlds[key].copy() for key in ("reward", "terminated", "truncated"))
        for world in np.flatnonzero(ended).tolist():
            last = lasts[world]
            rewards[world], terminated[world] = last["reward"], last["terminated"]
            # No agent is alive at an end, unless the env failed and was restarted (on_failure="restart").
            truncated[world] = last["truncated"] | last["alive"]
        alive, done = _flags(worlds["alive"]), _flags(terminated | truncated)
        infos = self._infos(world_infos, alive, done, np.repeat(ended, len(self.agents)))
        if done.any():
            infos["final_obs"], infos["_final_obs"] = self._last_observations(worlds, lasts, ended, done), done
        observations = self._observations(worlds["observation"], alive)
        return observations, rewards.reshape(-1), _flags(terminated), _flags(truncated), infos

    def render(self) -> tuple[Any, ...]:
        """Each world's rendering."""
        return self.engine.render()

    def close_extras(self, **kwargs: Any) -> None:
        self.engine.close(**kwargs)

    def _per_world(self, actions: Any) -> Any:
        """Actions by row as actions by world and agent."""
        parts = []
        for leaf, part in zip(leaves(self.single_action_space), split(self.single_action_space, actions), strict=True):
            array = np.asarray(part)
            if array.shape != (self.num_envs, *leaf.shape):
                raise SpaceError(
                    f"actions{leaf.name} should have shape {(self.num_envs, *leaf.shape)} ({self.num_worlds} worlds of "
                    f"{len(self.agents)} agents, each {leaf.space}), got shape {array.shape}"
                )
            parts.append(array.reshape(self.num_worlds, len(self.agents), *leaf.shape))
        return join(self.single_action_space, iter(parts))

    def _observations(self, by_world: Any, alive: np.ndarray) -> Any:
        """Observations by world and agent as rows; zeros where there is no agent to act on them."""
        parts = [
            part.reshape(self.num_envs, *part.shape[2:]) for part in split(self.single_observation_space, by_world)
        ]
        if not alive.all():
            for part in parts:
                part[~alive] = 0
        return join(self.single_observation_space, iter(parts))

    def _last_observations(self, worlds: Any, lasts: Any, ended: np.ndarray, done: np.ndarray) -> np.ndarray:
        observations = np.full(self.num_envs, None, dtype=object)
        for row in np.flatnonzero(done).tolist():
            world, k = divmod(row, len(self.agents))
            if ended[world]:
                parts = [part[k] for part in split(self.single_observation_space, lasts[world]["observation"])]
            else:
                parts = [part[world, k] for part in split(self.single_observation_space, worlds["observation"])]
            observations[row] = join(self.single_observation_space, (part.copy() for part in parts))
        return observations

    def _infos(
        self, infos: dict[str, Any], alive: np.ndarray, done: np.ndarray, world_ended: np.ndarray
    ) -> dict[str, Any]:
        """Infos by row. As in Gymnasium, what came with an agent's last step is under `final_info`."""
        rows: dict[str, Any] = {}
        finals: dict[str, Any] = {}
        done_alone = done & ~world_ended
        self._place(infos, rows, ~done_alone)
        self._place(infos, finals, done_alone)
        self._place(infos.get("final_info", {}), finals, world_ended)
        if "restarted" in infos:  # set by the engine
            for columns in (rows, finals):
                columns["restarted"] = columns["_restarted"] = np.repeat(infos["_restarted"], len(self.agents))
        if done.any():
            rows["final_info"], rows["_final_info"] = finals, done
        rows["agent_mask"], rows["_agent_mask"] = alive, np.ones(self.num_envs, np.bool_)
        return rows

    def _place(self, infos: dict[str, Any], columns: dict[str, Any], wanted: np.ndarray) -> None:
        """Add the infos of the wanted rows' agents to `columns`."""
        for world in np.flatnonzero(infos.get("_agent_infos", ())).tolist():
            for row, info in enumerate(infos["agent_infos"][world], start=world * len(self.agents)):
                if wanted[row]:
                    add_info(columns, info, row, self.num_envs)


def _flags(by_world: np.ndarray) -> np.ndarray:
    return by_world.reshape(-1).astype(np.bool_)
