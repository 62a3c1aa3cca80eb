"""Learners: arrays in, actions out. They never see an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.learners.agent import Agent
    from rookery.learners.algorithms.dqn import DQN
    from rookery.learners.algorithms.ppo import PPO
    from rookery.learners.algorithms.pqn import PQN
    from rookery.learners.algorithms.sac import SAC
    from rookery.learners.algorithms.td3 import TD3
    from rookery.learners.algorithms.xqc import XQC
    from rookery.learners.learner import Learner, StepBatch
    from rookery.learners.learner_spec import LearnerSpec, Options
    from rookery.learners.registry import (
        DQNOptions,
        PPOOptions,
        PQNOptions,
        SACOptions,
        TD3Options,
        XQCOptions,
        make_learner,
    )

__all__ = [
    "DQN",
    "PPO",
    "PQN",
    "SAC",
    "TD3",
    "XQC",
    "Agent",
    "DQNOptions",
    "Learner",
    "LearnerSpec",
    "Options",
    "PPOOptions",
    "PQNOptions",
    "SACOptions",
    "StepBatch",
    "TD3Options",
    "XQCOptions",
    "make_learner",
]

__getattr__, __dir__ = lazy_names(__name__)
