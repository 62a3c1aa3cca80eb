"""Learners: arrays in, actions out. They never see an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names
from rookery.learners.openmp import wait_briefly

if TYPE_CHECKING:
    from rookery.learners.agent import Agent as Agent
    from rookery.learners.algorithms.dqn import DQN as DQN
    from rookery.learners.algorithms.ppo import PPO as PPO
    from rookery.learners.algorithms.pqn import PQN as PQN
    from rookery.learners.algorithms.sac import SAC as SAC
    from rookery.learners.algorithms.td3 import TD3 as TD3
    from rookery.learners.algorithms.xqc import XQC as XQC
    from rookery.learners.learner import Learner as Learner, StepBatch as StepBatch
    from rookery.learners.learner_spec import LearnerSpec as LearnerSpec, Options as Options
    from rookery.learners.registry import (
        DQNOptions as DQNOptions,
        PPOOptions as PPOOptions,
        PQNOptions as PQNOptions,
        SACOptions as SACOptions,
        TD3Options as TD3Options,
        XQCOptions as XQCOptions,
        make_learner as make_learner,
    )

wait_briefly()  # before any module in here imports torch

__getattr__, __dir__, __all__ = lazy_names(__name__)
