"""Trained agents that act with NumPy alone: in this process, or as one file for any other program.

`runtime` is the code they run on, `describe` says what they are made of, `writer` makes the file. None needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.standalone.description import describe
from rookery.standalone.runtime import NumPyAgent

if TYPE_CHECKING:
    from rookery.learners.agent import Agent as TrainedAgent

__all__ = ["from_agent", "from_saved"]


def from_saved(
    saved: dict[str, Any], about: dict[str, Any] | None = None, table: np.ndarray | None = None
) -> NumPyAgent:
    """The agent that a checkpoint's part "agent" describes; see `describe`."""
    return NumPyAgent(*describe(saved, about or {"learner": saved["learner"]}, table))


def from_agent(agent: TrainedAgent, about: dict[str, Any] | None = None, table: np.ndarray | None = None) -> NumPyAgent:
    """The same agent without torch: `from_agent(rookery.load("latest")).act(observation)`.

    Other than torch's, it takes single observations too, and draws its actions only if told to.
    """
    return from_saved(_saved(agent), about, table)


def _saved(agent: TrainedAgent) -> dict[str, Any]:
    """What a checkpoint would hold of an agent."""
    from rookery.learners.learner import module_state
    from rookery.learners.networks import ACTIVATIONS
    from rookery.learners.registry import HOMES
    from rookery.learners.space_json import to_tree

    policy: Any = agent.policy
    learner = next(name for name, (_, kind) in HOMES.items() if kind == type(policy).__name__)
    activate = (policy.actor if learner == "ppo" else policy.net).activation
    return {
        "learner": learner,
        "options": {
            "activation": next(name for name, function in ACTIVATIONS.items() if function is activate),
            "epsilon_end": getattr(policy, "epsilon", None),
        },
        "policy": module_state(policy),
        "observation_space": to_tree(agent.observation_space),
        "action_space": to_tree(agent.action_space),
    }
