"""Learners by name, loaded when used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from rookery.learners.options import Options

if TYPE_CHECKING:
    from rookery.learners.agent import Policy
    from rookery.learners.learner import Learner

HOMES = {"ppo": ("PPO", "ActorCritic"), "sac": ("SAC", "SACPolicy"), "dqn": ("DQN", "QPolicy")}


def make_learner(name: str, *args: Any, **kwargs: Any) -> Learner:
    """A learner: `make_learner("ppo", observation_space, action_space, options, num_envs, seed, device)`."""
    return getattr(import_module(f"rookery.learners.{name}"), HOMES[name][0])(*args, **kwargs)


def make_policy(name: str, observation_space: spaces.Space, action_space: spaces.Space, options: Options) -> Policy:
    """The policy alone, with first weights: to be filled from a checkpoint."""
    module = import_module(f"rookery.learners.{name}")
    return getattr(module, HOMES[name][1])(observation_space, action_space, options)
