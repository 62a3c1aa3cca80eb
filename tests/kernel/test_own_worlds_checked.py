"""The worlds of rookery run unchecked. Here they run checked: nothing fails, and every number is the same."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.kernel.failed_checks import is_checked
from rookery.kernel.kernel_env import find_world
from rookery.worlds.classic import CartPole

ENVS, STEPS = 8, 300
QUICK = ["rookery/CartPole-v1", "rookery/Catch-v0"]
REST = [
    "rookery/Acrobot-v1", "rookery/Hockey-v0", "rookery/HockeyOne-v0", "rookery/MountainCar-v0",
    "rookery/MountainCarContinuous-v0", "rookery/Pendulum-v1",
]  # fmt: skip
MUJOCO = sorted(name for name in gym.registry if name.startswith("rookery/") and name.endswith("-v5"))


def run(world, bounds):
    envs = rookery.make_vec(world, ENVS, backend="kernel", bounds=bounds, autoreset_mode="same_step")
    envs.reset(seed=4)
    envs.action_space.seed(4)
    for _ in range(STEPS):
        envs.step(envs.action_space.sample())
    return envs.state_dict()


def same(name):
    checked, unchecked = run(name, True), run(name, False)
    for array, mine in checked["arrays"].items():
        np.testing.assert_array_equal(mine, unchecked["arrays"][array], array)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in REST)])
def test_checked_and_unchecked_code_give_the_same(name):
    same(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MUJOCO)
def test_mujoco_worlds_checked_and_unchecked(name):
    pytest.importorskip("mujoco")
    same(name)


@pytest.mark.parametrize("name", [*QUICK, *REST])
def test_by_default_they_are_not_checked(name):
    assert not is_checked(find_world(name), None)


def test_a_world_with_a_function_of_ones_own_is_checked():
    """Also if it is a subclass of one of rookery's; `bounds = False` is its author's word."""

    class Own(CartPole):
        @staticmethod
        def observe(state, out):
            out[0] = state.x

    class Unchecked(Own):
        bounds = False

    assert is_checked(Own(), None) and not is_checked(Own(), False)
    assert not is_checked(Unchecked(), None) and is_checked(Unchecked(), True)
    assert not is_checked(CartPole(), None) and is_checked(CartPole(), True)
