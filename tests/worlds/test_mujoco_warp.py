"""mujoco-warp itself, on the CPU: it compiles its kernels for a minute. `make test-mujoco-gpu` installs it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import rookery
from worlds.robots import Arm

pytest.importorskip("mujoco_warp")
pytestmark = pytest.mark.slow
STEPS = 12
# Ants touch the ground soon, where mujoco-warp's friction differs; the others stay close for a while.
CLOSE = {Arm: 1e-4, "rookery/Hopper-v5": 1e-3, "rookery/Humanoid-v5": 5e-2}


@pytest.mark.parametrize("world", CLOSE, ids=str)
def test_it_stays_close_to_mujoco(world):
    """From the same states, with the same actions; an episode's first observation needs a settled simulation."""
    ours = rookery.make_vec(world, 3, backend="cuda", device="cpu", autoreset_mode=AutoresetMode.SAME_STEP)
    theirs = rookery.make_vec(world, 3, backend="kernel", autoreset_mode=AutoresetMode.SAME_STEP)
    assert np.allclose(ours.reset(seed=3)[0].numpy(), theirs.reset(seed=3)[0], atol=1e-5)
    space, rng = ours.single_action_space, np.random.default_rng(0)
    for _ in range(STEPS):
        actions = rng.uniform(space.low, space.high, (3, *space.shape)).astype(np.float32)
        observations, rewards, terminated, _, _ = ours.step(torch.from_numpy(actions))
        expected = theirs.step(actions)
        assert np.allclose(observations.numpy(), expected[0], atol=CLOSE[world])
        assert np.allclose(rewards.numpy(), expected[1], atol=CLOSE[world])
        assert np.array_equal(terminated.numpy(), expected[2])


def test_states_are_those_of_mujoco():
    """A state that was read on the CPU continues on the GPU, and the other way round."""
    ours, theirs = rookery.make_vec(Arm, 3, backend="cuda", device="cpu"), rookery.make_vec(Arm, 3, backend="kernel")
    for envs in (ours, theirs):
        envs.reset(seed=4)
    simulation = ours.arena.world.simulation
    states = simulation.read_states()
    assert states.shape == (3, theirs.world.state_size)
    assert np.allclose(states, theirs.arena.states["physics"], atol=1e-6)
    changed = states + 0.125
    simulation.write_states(changed)
    assert np.array_equal(simulation.read_states(), changed.astype(np.float32))
