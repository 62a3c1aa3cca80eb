"""The tiny worlds of `offpolicy_tools` as envs that return tensors, and a loop over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from learners.offpolicy_tools import Batch
from rookery.learners.learner import Learner, StepBatch, TensorFinals


def as_tensors(envs: Batch, step: StepBatch) -> StepBatch:
    """A step of arrays as envs on a device return it: final observations of all rows, most of them undefined."""
    seen = np.asarray(step.observations)
    finals = np.full(seen.shape, np.nan if seen.dtype.kind == "f" else 7, seen.dtype)
    for row, last in zip(*step.finals, strict=True) if step.finals else ():
        finals[row] = last
    ended = torch.from_numpy(step.terminated | step.truncated)
    parts = (
        torch.from_numpy(np.asarray(x)) for x in (step.observations, step.rewards, step.terminated, step.truncated)
    )
    return StepBatch(*parts, TensorFinals(ended, torch.from_numpy(finals)))


def play_tensors(learner: Learner, envs: Batch, rounds: int, observations: Any = None) -> Any:
    """As training does it on a device: a round, and the updates that are due."""
    observations = torch.from_numpy(envs.observe()) if observations is None else observations
    rows = slice(0, envs.num_envs)
    for _ in range(rounds):
        learner.execution.before_round()
        actions = learner.explore(observations, rows)
        assert isinstance(actions, torch.Tensor)
        step = as_tensors(envs, envs.step(actions.numpy()))
        learner.record(rows, step)
        observations = step.observations
        if learner.ready():
            learner.update()
    return observations
