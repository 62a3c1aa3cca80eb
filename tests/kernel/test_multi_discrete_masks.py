"""Masks of MultiDiscrete actions: the masks of all components one after the other, on every path."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rookery
from kernel.test_cuda_on_cpu import on_cpu
from rookery.engine.autotune import has_masks, legal, legal_batch
from rookery.kernel import runner
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.random import integer
from rookery.kernel.world import KernelWorld
from rookery.learners.action_spaces import mask_of
from rookery.learners.observations import choices_in


class Locks(KernelWorld):
    """Two dials of 3 and 4 numbers, of which one each is blocked; a blocked number costs a point."""

    observation_space = spaces.Box(0, 3, (2,), np.float32)
    action_space = spaces.MultiDiscrete([3, 4], start=[0, 1])
    state = {"blocked": ("i8", (2,))}
    time_limit = 8

    @staticmethod
    def reset(state):
        state.blocked[0], state.blocked[1] = integer(state, 0, 3), integer(state, 0, 4)

    @staticmethod
    def step(state, action):
        wrong = (action[0] == state.blocked[0]) + (action[1] - 1 == state.blocked[1])
        state.blocked[0], state.blocked[1] = integer(state, 0, 3), integer(state, 0, 4)
        return -float(wrong), False

    @staticmethod
    def observe(state, out):
        out[0], out[1] = state.blocked[0], state.blocked[1]

    @staticmethod
    def action_mask(state, out):
        for number in range(3):
            out[number] = number != state.blocked[0]
        for number in range(4):
            out[3 + number] = number != state.blocked[1]


def expected(observations):
    first, second = np.arange(3) != observations[:, :1], np.arange(4) != observations[:, 1:]
    return np.concatenate([first, second], axis=1)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_masks_are_flat_rows_that_learners_read(monkeypatch, compiled):
    if not compiled:
        monkeypatch.setattr(runner, "load_native", lambda: None)
    envs = rookery.make_vec(Locks, 5, backend="kernel", autoreset_mode="same_step")
    last = envs.reset(seed=1)
    total = 0.0
    for _ in range(20):
        observations, infos = last[0], last[-1]
        assert np.array_equal(infos["action_mask"], expected(observations))
        mask = mask_of(observations, infos, envs.single_action_space)
        assert mask.shape == (5, choices_in(envs.single_action_space))
        actions = legal_batch(envs.single_action_space, envs.action_space.sample(), last)
        assert actions in envs.action_space
        last = envs.step(actions)
        total += last[1].sum()
        if "final_info" in last[4]:
            assert last[4]["final_info"]["action_mask"].shape == (5, 7)
    assert total == 0.0  # no blocked number was chosen


def test_one_env_and_a_gpu_have_them_too():
    env = KernelEnv(Locks, plain=True)
    last = env.reset(seed=1)
    assert has_masks(env.action_space, last)
    for _ in range(20):
        assert np.array_equal(last[-1]["action_mask"], expected(last[0][None])[0])
        last = env.step(legal(env.action_space, env.action_space.sample(), last))
        assert last[1] == 0.0
        last = env.reset() if last[3] else last
    ours = on_cpu(Locks, 3)
    observations, infos = ours.reset(seed=1)
    assert torch.equal(infos["action_mask"].bool(), torch.from_numpy(expected(observations.numpy())))


@pytest.mark.slow
def test_ppo_never_takes_what_is_masked(tmp_path):
    result = rookery.train(Locks, learner="ppo", steps=2048, num_envs=8, runs_dir=str(tmp_path), name="locks")
    assert result.mean_reward == result.evaluation == 0.0
