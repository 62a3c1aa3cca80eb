"""What a policy says about one observation: probabilities or mean and deviation of its actions, and a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.agent import Agent
from rookery.learners.algorithms.dqn import QPolicy
from rookery.learners.algorithms.ppo import ActorCritic
from rookery.learners.algorithms.sac import SACPolicy
from rookery.learners.algorithms.td3 import TD3Policy
from rookery.learners.composite_head import CompositeHead
from rookery.learners.heads import BernoulliHead, CategoricalHead, GaussianHead, Head, MultiCategoricalHead
from rookery.learners.observations import split

MOST_ACTIONS = 64  # of each kind that are told


@torch.no_grad()
def policy_outputs(
    agent: Agent, observations: Any, mask: np.ndarray | None = None, memory: np.ndarray | None = None
) -> dict[str, Any]:
    """For a batch of one observation: `probabilities` (a list for each discrete action), `mean` and `std`, or `q`; and
    `value`, if the policy has one: a critic of SAC or TD3 is no part of an agent."""
    policy = agent.policy
    leaves = split(policy.leaves, observations, agent.device)
    allowed = None if mask is None else torch.as_tensor(mask).bool().reshape(1, -1)
    if isinstance(policy, ActorCritic):
        features = policy.features(leaves, None if memory is None else torch.as_tensor(memory))
        outputs = policy.actor(features)
        if allowed is not None:
            outputs = policy.head.apply_mask(outputs, allowed)
        return {**_of_head(policy.head, outputs), "value": float(policy.critic(features).reshape(-1)[0])}
    if isinstance(policy, QPolicy):
        values = policy(leaves)
        if allowed is not None:
            values = values.masked_fill(~allowed, -torch.inf)
        return {"q": _numbers(values), "value": float(values.max())}
    if isinstance(policy, SACPolicy):
        mean, log_std = policy(policy.encoder(leaves))
        return {"mean": _numbers(policy.bounds.to_env(mean.tanh())), "std": _numbers(log_std.exp()), "squashed": True}
    if isinstance(policy, TD3Policy):
        return {"mean": _numbers(policy.bounds.to_env(policy(policy.encoder(leaves))))}
    return {}


def _of_head(head: Head, outputs: Tensor) -> dict[str, Any]:
    if isinstance(head, CategoricalHead):
        return {"probabilities": [_numbers(outputs.softmax(-1))]}
    if isinstance(head, MultiCategoricalHead):
        return {"probabilities": [_numbers(part.softmax(-1)) for part in outputs.split(head.sizes, -1)]}
    if isinstance(head, BernoulliHead):
        return {"probabilities": [_numbers(torch.stack([1 - p, p])) for p in outputs.sigmoid().reshape(-1)]}
    if isinstance(head, GaussianHead):
        return {"mean": _numbers(outputs), "std": _numbers(head.log_std.exp())}
    if isinstance(head, CompositeHead):
        return _joined([_of_head(part, part_outputs) for part, part_outputs in head.with_outputs(outputs)])
    return {}


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The outputs of several heads: lists one after the other."""
    joined: dict[str, Any] = {}
    for part in parts:
        for name, numbers in part.items():
            joined[name] = joined.get(name, []) + numbers
    return joined


def _numbers(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values.reshape(-1)[:MOST_ACTIONS].tolist()]
