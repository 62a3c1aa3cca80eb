"""The accelerator of several GPUs, on the CPU: with steps of tensors it learns what plain PPO learns alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.distributed.test_data_parallel_ppo import ENVS, LENGTH, VECTORS, data_parallel, observe
from learners.distributed.thread_ranks import in_threads, thread_ranks
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.execution import rollout_device
from rookery.learners.execution.rollout_device import CapturedPPO
from rookery.learners.execution.shared import DataParallel
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.learners.registry import PPOOptions


def learn_from_tensors(learner: PPO) -> None:
    """Three updates on the learner's own rows of given outcomes."""
    n = learner.num_envs
    own = slice(learner.rank * n, (learner.rank + 1) * n)
    for update in range(3):
        random = np.random.default_rng(update)
        for _ in range(LENGTH):
            learner.explore(torch.from_numpy(observe(VECTORS, random)[own]), slice(0, n))
            rewards = torch.from_numpy(random.normal(size=ENVS).astype(np.float32)[own])
            terminated, cut = torch.from_numpy(random.random((2, ENVS))[:, own] < 0.15)
            after = torch.from_numpy(observe(VECTORS, random)[own])
            finals = TensorFinals(terminated | cut, after)
            learner.record(slice(0, n), StepBatch(after, rewards, terminated, cut & ~terminated, finals))
        learner.update()


def test_it_learns_as_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataParallel, "accelerated_by", ("CapturedPPO",))
    monkeypatch.setattr(CapturedPPO, "supports", classmethod(lambda cls, learner: True))
    # Triton's interpreter, which other tests may have switched on, does not run in two threads at once.
    monkeypatch.setattr(rollout_device, "has_kernels", lambda device: False)
    both, options = (VECTORS, spaces.Discrete(3)), PPOOptions(rollout_length=LENGTH)
    alone = PPO(*both, options.model_copy(update={"accelerate": False}), ENVS, seed=3)
    learn_from_tensors(alone)
    learners = [data_parallel(*both, options=options, seed=3, ranks=ranks) for ranks in thread_ranks(2)]
    assert all(type(learner.accelerator) is CapturedPPO for learner in learners)
    in_threads(learn_from_tensors, learners)
    np.testing.assert_allclose(learners[0].adam.flat.detach(), alone.adam.flat.detach(), rtol=1e-4, atol=2e-6)
