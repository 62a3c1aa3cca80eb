"""One PettingZoo parallel env as one Gymnasium env, whose observation holds the data of all agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from gymnasium.vector.utils import batch_space

from rookery.engine.batch import SpaceLeaf, join, leaves, split
from rookery.errors import SpaceError, StateError, WorldError
from rookery.worlds.foreign_games import TurnsAsParallel, is_turn_based


@dataclass(frozen=True)
class ParallelEnvMaker:
    """Builds a `ParallelEnvAsGym` in the worker."""

    maker: Callable[[], Any]

    def __call__(self) -> ParallelEnvAsGym:
        env = self.maker()
        return ParallelEnvAsGym(TurnsAsParallel(env) if is_turn_based(env) else env)


class ParallelEnvAsGym(gym.Wrapper):
    """Rewards, ends of episodes and the mask of alive agents are in the observation, so that they use shared memory.

    A finished agent keeps its last observation, because zeros might not be in its space.
    """

    env: Any

    def __init__(self, parallel_env: Any) -> None:
        # A Wrapper, so that the engine finds the inner env (its random numbers, its state). The inner env is not a
        # gymnasium.Env, which the constructor of Wrapper would refuse, so that is not called.
        self.env = parallel_env
        self._metadata = dict(getattr(parallel_env, "metadata", {}))
        self._agents = _agents_of(parallel_env)
        self._seat = {agent: k for k, agent in enumerate(self._agents)}
        self._single_observation, self._single_action = (
            _common_space(parallel_env, kind, self._agents) for kind in ("observation", "action")
        )
        count = len(self._agents)
        self.action_space = batch_space(self._single_action, count)
        self.observation_space = spaces.Dict(
            {
                "observation": batch_space(self._single_observation, count),
                "reward": spaces.Box(-np.inf, np.inf, (count,), np.float64),
                "terminated": spaces.MultiBinary(count),
                "truncated": spaces.MultiBinary(count),
                "alive": spaces.MultiBinary(count),
            }
        )
        self._leaves = leaves(self._single_observation)
        self._seen = [split(self._single_observation, self._single_observation.sample()) for _ in self._agents]
        self._alive = self._finished = np.zeros(count, np.bool_)

    def agent_facts(self) -> tuple[tuple[Any, ...], gym.Space, gym.Space]:
        """The agents' names, and the spaces of each of them."""
        return self._agents, self._single_observation, self._single_action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)
        nothing = np.zeros(len(self._agents))
        self._finished = nothing.astype(np.bool_)
        self._alive = self._present()
        self._look(observations)
        return self._observation(nothing, self._finished, self._finished), self._info(infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observations, rewards, terminations, truncations, infos = self.env.step(self._actions(action))
        playing = ~self._finished
        self._look(observations)
        terminated = self._column(terminations, np.bool_) & playing
        truncated = self._column(truncations, np.bool_) & playing
        alive = self._present() & playing & ~terminated & ~truncated
        truncated |= self._alive & ~alive & ~terminated  # an agent that disappeared without an end
        self._alive, self._finished = alive, self._finished | terminated | truncated
        reward = np.where(playing, self._column(rewards, np.float64), 0.0)
        over, cut_short = not alive.any(), bool(truncated.any())
        observation = self._observation(reward, terminated, truncated)
        return observation, float(reward.sum()), over and not cut_short, over and cut_short, self._info(infos)

    def _actions(self, action: Any) -> dict[Any, Any]:
        parts = split(self._single_action, action)
        return {
            agent: join(self._single_action, (part[k] for part in parts))
            for k, agent in enumerate(self._agents)
            if self._alive[k]
        }

    def _present(self) -> np.ndarray:
        present = set(self.env.agents)
        return np.array([agent in present for agent in self._agents], np.bool_)

    def _column(self, values: dict[Any, Any], dtype: Any) -> np.ndarray:
        return np.array([values.get(agent, 0) for agent in self._agents], dtype)

    def _look(self, observations: dict[Any, Any]) -> None:
        """Store the observations of the agents that are alive."""
        for agent, observation in observations.items():
            k = self._seat.get(agent)
            if k is not None and not self._finished[k]:
                parts = split(self._single_observation, observation)
                self._seen[k] = [_as_leaf(agent, *pair) for pair in zip(self._leaves, parts, strict=True)]

    def _observation(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray) -> dict[str, Any]:
        stacks = (np.stack(parts) for parts in zip(*self._seen, strict=True))
        flags = {"terminated": terminated, "truncated": truncated, "alive": self._alive}
        return {
            "observation": join(self._single_observation, stacks),
            "reward": reward,
            **{key: flag.astype(np.int8) for key, flag in flags.items()},
        }

    def _info(self, infos: dict[Any, Any]) -> dict[str, Any]:
        """The agents' infos as one object; no key if they are empty, which is usual."""
        if not any(infos.values()):
            return {}
        return {"agent_infos": [infos.get(agent, {}) for agent in self._agents]}

    # --- what a Wrapper expects from the env inside, and a ParallelEnv does not have ------------------------------

    @property
    def spec(self) -> None:  # type: ignore[override]
        return None

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        return getattr(self.env, "render_mode", None)

    def has_wrapper_attr(self, name: str) -> bool:
        return hasattr(self, name) or hasattr(self.env, name)

    def get_wrapper_attr(self, name: str) -> Any:
        return getattr(self if hasattr(self, name) else self.env, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        setattr(self.env, name, value)
        return True

    def __getstate__(self) -> dict[str, Any]:
        """The pickled state. An env that pickles only its arguments, inside PettingZoo's wrappers, is rejected."""
        for layer in _layers(self.env):
            if isinstance(layer, EzPickle):
                raise StateError(f"{type(layer).__name__} is pickled as its constructor arguments only (EzPickle)")
        return self.__dict__


def _agents_of(parallel_env: Any) -> tuple[Any, ...]:
    name = type(parallel_env).__qualname__
    if isinstance(parallel_env, gym.Env):
        raise WorldError(f"{name} is a gymnasium.Env: use rookery.make_vec; a PettingZoo env is needed here")
    agents = tuple(getattr(parallel_env, "possible_agents", ()))
    if not agents:
        raise WorldError(f"{name} should be a PettingZoo ParallelEnv, but it has no possible_agents")
    return agents


def _common_space(parallel_env: Any, kind: str, agents: tuple[Any, ...]) -> gym.Space:
    """The space that all agents share."""
    space_of = getattr(parallel_env, f"{kind}_space")
    first = space_of(agents[0])
    for agent in agents[1:]:
        if space_of(agent) != first:
            raise SpaceError(
                f"agents in one batch need the same {kind} space: {agents[0]!r} has {first}, "
                f"{agent!r} has {space_of(agent)}"
            )
    for leaf in leaves(first):
        if leaf.dtype is None:
            raise SpaceError(f"an agent's {kind} space should be made of arrays; {kind}{leaf.name} is {leaf.space}")
    return first


def _as_leaf(agent: Any, leaf: SpaceLeaf, value: Any) -> np.ndarray:
    """An array with its own dtype; the engine decides whether it may be cast."""
    array = np.asarray(value, None if hasattr(value, "dtype") else leaf.dtype)
    if array.shape != leaf.shape:
        raise SpaceError(
            f"agent {agent!r}: observation{leaf.name} should be of shape {leaf.shape}, got shape {array.shape}"
        )
    return array


def _layers(env: Any) -> Iterator[Any]:
    """A PettingZoo env and the envs inside its wrappers."""
    while env is not None:
        yield env
        env = vars(env).get("env", vars(env).get("aec_env"))
