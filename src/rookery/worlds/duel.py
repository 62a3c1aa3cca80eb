"""Adapts two-player games of other packages to rookery."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


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
