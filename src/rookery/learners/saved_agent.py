"""An agent as a checkpoint holds it."""

from __future__ import annotations

from typing import Any

from rookery.learners.agent import Agent
from rookery.learners.learner import module_state
from rookery.learners.plain_spaces import to_tree
from rookery.learners.registry import specs


def saved_agent(agent: Agent) -> dict[str, Any]:
    """The part "agent" of a checkpoint: everything that acting needs."""
    options = agent.policy.options
    return {
        "learner": next(name for name, spec in specs().items() if spec.options is type(options)),
        "options": options.model_dump(mode="json"),
        "policy": module_state(agent.policy),
        "observation_space": to_tree(agent.observation_space),
        "action_space": to_tree(agent.action_space),
    }
