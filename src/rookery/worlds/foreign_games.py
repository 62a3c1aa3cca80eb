"""Games of other packages as worlds: two-player games of Gymnasium, and turn-based games of PettingZoo.

`TurnsAsParallel` makes an `AECEnv` a parallel env, in which a step is one move. All agents see every step. Only the
action of the agent whose turn it is counts. The others have a mask with one action, so that a policy has nothing to
choose there, and a policy gradient is 0.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

MASK_KEY, OBSERVATION_KEY = "action_mask", "observation"


def is_turn_based(env: Any) -> bool:
    """Whether it is an `AECEnv`."""
    return hasattr(env, "agent_iter")


class TurnsAsParallel:
    """Has the methods of a `ParallelEnv`. Each agent gets the rewards of every move, also of the others' moves."""

    def __init__(self, env: Any) -> None:
        self.env, self.possible_agents = env, list(env.possible_agents)
        self.metadata, self.render_mode = getattr(env, "metadata", {}), getattr(env, "render_mode", None)
        self.agents: list[Any] = []

    def observation_space(self, agent: Any) -> Any:
        """The agent's own, with a mask if its actions are discrete."""
        own, acts = self.env.observation_space(agent), self.env.action_space(agent)
        if _has_mask(own) or not isinstance(acts, spaces.Discrete):
            return own
        return spaces.Dict({MASK_KEY: spaces.MultiBinary(int(acts.n)), OBSERVATION_KEY: own})

    def action_space(self, agent: Any) -> Any:
        """The agent's own."""
        return self.env.action_space(agent)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin a game."""
        self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        return self._observations(), dict(self.env.infos)

    def step(self, actions: dict[Any, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """One move, by the agent whose turn it is."""
        playing, mover = list(self.agents), self.env.agent_selection
        self.env.step(actions[mover])
        rewards, infos = dict(self.env.rewards), dict(self.env.infos)
        terminated, truncated = dict(self.env.terminations), dict(self.env.truncations)
        observations = self._observations()
        self.agents = [a for a in playing if a in self.env.agents and not (terminated.get(a) or truncated.get(a))]
        while self.env.agents and self._is_over(self.env.agent_selection):
            self.env.step(None)  # how PettingZoo lets an agent go that has finished
        return observations, rewards, terminated, truncated, infos

    def _is_over(self, agent: Any) -> bool:
        return bool(self.env.terminations.get(agent) or self.env.truncations.get(agent))

    def _observations(self) -> dict[Any, Any]:
        return {agent: self._observation(agent) for agent in self.env.agents}

    def _observation(self, agent: Any) -> Any:
        seen, acts = self.env.observe(agent), self.env.action_space(agent)
        if not isinstance(acts, spaces.Discrete):
            return seen
        if not _has_mask(self.env.observation_space(agent)):
            own = np.asarray((self.env.infos.get(agent) or {}).get(MASK_KEY, np.ones(int(acts.n))), np.int8)
            seen = {OBSERVATION_KEY: seen, MASK_KEY: own}
        if agent != self.env.agent_selection or self._is_over(agent):
            seen = {**seen, MASK_KEY: np.eye(1, int(acts.n), dtype=np.int8)[0]}
        return seen

    def render(self) -> Any:
        """As the game draws itself."""
        return self.env.render()

    def close(self) -> None:
        self.env.close()


def _has_mask(space: Any) -> bool:
    return isinstance(space, spaces.Dict) and MASK_KEY in space.spaces


class BothViews(gym.Wrapper):
    """Puts the second player's observation into the infos, for games that have a method `obs_agent_two()`.

    The original hockey env is one of these: `my_hockey.py` with

        def make():
            return BothViews(HockeyEnv())

    is a world with opponents, `rookery train my_hockey.py:make --opponents self`.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._with_view(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._with_view(info)

    def _with_view(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, "obs_agent_two": self.env.get_wrapper_attr("obs_agent_two")()}
