"""Playing episodes to show them: for how long, the agent's actions, and how an episode ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.learners.action_spaces import mask_of, row_of
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY
from rookery.training.evaluation.episodes import action_seed, episode_seed
from rookery.training.players.agents import AgentPlayer

HOLD_SECONDS = 0.7  # for which the last frame of an episode is shown
WINNERS = {1: "won", -1: "lost", 0: "drawn"}


@dataclass(frozen=True)
class PlayLimits:
    """How much is shown. New episodes start until there are `episodes` of them or `enough_seconds` have been shown;
    after `max_seconds` the current episode is cut."""

    episodes: int
    enough_seconds: float
    max_seconds: float

    @classmethod
    def for_episodes(cls, episodes: int | None) -> PlayLimits:
        """A number of episodes; None for up to five, in about 10 seconds."""
        if episodes is None:
            return cls(5, enough_seconds=10.0, max_seconds=30.0)
        return cls(episodes, enough_seconds=600.0, max_seconds=600.0)


class ShownAgent:
    """An agent in some envs, by their numbers. The episodes are those of an evaluation with the same seed."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self._seed, self._dtype = seed, agent.action_space.dtype
        self._player = AgentPlayer(agent, "agent", deterministic=agent.deterministic, copy=False)

    @property
    def player(self) -> AgentPlayer:
        """Who acts; whether its actions are deterministic can be changed at any time."""
        return self._player

    def begin(self, env: int, episode: int) -> int:
        """Begin an episode, by its number; returns the seed to reset the env with."""
        self._player.begin(np.array([env]), [action_seed(self._seed, episode)])
        return episode_seed(self._seed, episode)

    def act(self, envs: Sequence[int], observations: Sequence[Any], infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The action for each of several envs, as `env.step` takes it."""
        batch, mask = self.batch(observations, infos)
        actions = self._player.act(batch, np.asarray(envs), mask)
        if isinstance(actions, (dict, tuple)):
            return [row_of(actions, k) for k in range(len(envs))]
        return [np.asarray(a, self._dtype) if np.ndim(a) else a for a in actions]

    def batch(self, observations: Sequence[Any], infos: Sequence[Mapping[str, Any]]) -> tuple[Any, np.ndarray | None]:
        """Observations of several envs as the agent takes them, and their action masks if there are any."""
        batch = _stacked(observations)
        masks = {MASK_KEY: _mask_column([info[MASK_KEY] for info in infos])} if MASK_KEY in infos[0] else None
        return batch, mask_of(batch, masks, self._player.action_space)


def _mask_column(masks: Sequence[Any]) -> np.ndarray:
    """One mask for each env, as a vector env's infos have them: dicts and tuples stay objects."""
    if not isinstance(masks[0], (dict, tuple)):
        return np.stack(masks)
    column = np.empty(len(masks), object)
    column[:] = masks
    return column


def _stacked(observations: Sequence[Any]) -> Any:
    first = observations[0]
    if isinstance(first, dict):
        return {name: _stacked([observation[name] for observation in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(_stacked(parts) for parts in zip(*observations, strict=True))
    return np.stack([np.asarray(observation) for observation in observations])


def outcome(info: Mapping[str, Any]) -> str:
    """How an episode ended, if its last info says so.

    >>> outcome({"winner": -1}), outcome({"is_success": True}), outcome({})
    ('lost', 'succeeded', '')
    """
    if "winner" in info:
        return WINNERS.get(int(info["winner"]), "drawn")
    for name in ("is_success", "success"):
        if name in info:
            return "succeeded" if info[name] else "failed"
    return ""
