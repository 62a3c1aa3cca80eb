"""The numbers in which members may differ, as arrays over the members, for one update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.schedules import scheduled


@dataclass(frozen=True)
class MemberSettings:
    """One value per member; schedules are applied."""

    learning_rate: np.ndarray
    clip: np.ndarray
    clip_values: np.ndarray  # infinite where values are not clipped
    entropy: np.ndarray
    value_weight: np.ndarray
    max_grad_norm: np.ndarray
    normalise: np.ndarray
    epochs: np.ndarray
    target_kl: np.ndarray  # infinite where there is none

    @classmethod
    def of(cls, learners: Sequence[PPO]) -> MemberSettings:
        options = [learner.options for learner in learners]
        clips = [scheduled(o.clip, o.clip_schedule, m.progress) for o, m in zip(options, learners, strict=True)]
        return cls(
            learning_rate=np.array([learner.learning_rate for learner in learners]),
            clip=np.array(clips, np.float64),
            clip_values=np.array([math.inf if o.clip_values is None else o.clip_values for o in options]),
            entropy=np.array([o.entropy for o in options], np.float64),
            value_weight=np.array([o.value_weight for o in options], np.float64),
            max_grad_norm=np.array([o.max_grad_norm for o in options], np.float64),
            normalise=np.array([o.normalise_advantages for o in options], np.bool_),
            epochs=np.array([o.epochs for o in options]),
            target_kl=np.array([math.inf if o.target_kl is None else o.target_kl for o in options]),
        )
