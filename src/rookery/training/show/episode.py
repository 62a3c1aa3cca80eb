"""What is needed to show one env or many: how much of it, what the agent does there, and how an episode ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY, mask_of

HOLD = 0.7  # seconds for which the end of an episode can be seen
WINNERS = {1: "won", -1: "lost", 0: "drawn"}


@dataclass(frozen=True)
class Length:
    """How much is shown. New episodes begin until there are `episodes` of them or `enough` seconds; after `most`
    seconds it ends in the middle of one."""

    episodes: int
    enough: float
    most: float

    @classmethod
    def of(cls, episodes: int | None) -> Length:
        """A number of episodes; or as many as someone likes to look at."""
        return cls(5, enough=10.0, most=30.0) if episodes is None else cls(episodes, enough=600.0, most=600.0)


def act(agent: Agent, observations: Sequence[Any], infos: Sequence[Mapping[str, Any]], starts: list[bool]) -> list[Any]:
    """The agent's action for each of some envs, as an env wants it."""
    batch = _stacked(observations)
    told = {MASK_KEY: np.stack([info[MASK_KEY] for info in infos])} if MASK_KEY in infos[0] else None
    actions = agent.act(batch, deterministic=agent.deterministic, mask=mask_of(batch, told), starts=np.array(starts))
    return [np.asarray(a, agent.action_space.dtype) if np.ndim(a) else a for a in actions]


def _stacked(observations: Sequence[Any]) -> Any:
    first = observations[0]
    if isinstance(first, dict):
        return {name: _stacked([observation[name] for observation in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(_stacked(parts) for parts in zip(*observations, strict=True))
    return np.stack([np.asarray(observation) for observation in observations])


def outcome(info: Mapping[str, Any]) -> str:
    """How an episode went, if the world says so.

    >>> outcome({"winner": -1}), outcome({"is_success": True}), outcome({})
    ('lost', 'succeeded', '')
    """
    if "winner" in info:
        return WINNERS.get(int(info["winner"]), "drawn")
    for name in ("is_success", "success"):
        if name in info:
            return "succeeded" if info[name] else "failed"
    return ""
