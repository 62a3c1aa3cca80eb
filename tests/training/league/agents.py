"""Small agents for the tests of the league, as checkpoints hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.learners.learner import module_state
from rookery.learners.plain_spaces import to_tree
from rookery.learners.registry import PPOOptions, make_policy

VIEW = spaces.Box(-np.inf, np.inf, (18,), np.float32)
ACTIONS = spaces.Box(-1, 1, (4,), np.float32)


def agent_tree(seed: int = 0) -> dict[str, Any]:
    """A hockey player with random weights: a checkpoint's part "agent"."""
    options = PPOOptions(hidden=[8])
    torch.manual_seed(seed)
    policy = make_policy("ppo", VIEW, ACTIONS, options)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return {
        "learner": "ppo",
        "options": options.model_dump(mode="json"),
        "policy": module_state(policy),
        "observation_space": to_tree(VIEW),
        "action_space": to_tree(ACTIONS),
    }
