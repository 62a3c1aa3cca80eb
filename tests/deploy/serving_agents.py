"""Agents with random weights, for any spaces, made without training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rookery.learners.agent import Agent
from rookery.learners.registry import make_policy, option_classes

VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)


def make_agent(
    observation_space: spaces.Space = VECTOR, action_space: spaces.Space | None = None, seed: int = 0, **options: Any
) -> Agent:
    """An agent of PPO whose weights depend on the seed alone."""
    action_space = spaces.Discrete(3) if action_space is None else action_space
    torch.manual_seed(seed)
    given = option_classes()["ppo"].model_validate({"hidden": [8], **options})
    policy = make_policy("ppo", observation_space, action_space, given)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return Agent(policy.eval(), observation_space, action_space, torch.device("cpu"))
