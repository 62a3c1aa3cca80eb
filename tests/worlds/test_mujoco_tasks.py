"""The compiled versions of Gymnasium's MuJoCo tasks do what the originals do, from the same states and actions."""

from __future__ import annotations

import gymnasium as gym
import mujoco
import numpy as np
import pytest

import rookery
from rookery.training.resolve.world_choice import find
from rookery.worlds.built_in_worlds import MUJOCO, ROBOTS

TASKS = sorted(ROBOTS)
# NumPy adds these in other orders, and rounds once after a multiplication and an addition: np.linalg.norm, np.einsum.
ROUNDED = {
    "Ant": ("distance_from_origin",),
    "Humanoid": ("distance_from_origin", "reward", "x_velocity", "y_velocity", "reward_forward"),
    "Pusher": ("reward", "reward_near", "reward_dist"),
    "Reacher": ("reward", "reward_dist"),
    "Swimmer": ("distance_from_origin",),
}
OPTIONS = {
    "Ant": {
        "include_cfrc_ext_in_observation": False, "exclude_current_positions_from_observation": False,
        "main_body": "torso", "healthy_z_range": (0.3, 0.9), "contact_cost_weight": 0.1, "frame_skip": 3,
    },
    "HalfCheetah": {"exclude_current_positions_from_observation": False, "ctrl_cost_weight": 0.3, "frame_skip": 2},
    "Hopper": {"terminate_when_unhealthy": False, "healthy_reward": 2.0, "healthy_angle_range": (-0.05, 0.05)},
    "Humanoid": {"include_cinert_in_observation": False, "include_cfrc_ext_in_observation": False},
    "HumanoidStandup": {"include_cvel_in_observation": False, "impact_cost_range": (0.0, 0.1)},
    "InvertedDoublePendulum": {"healthy_reward": 3.0},
    "InvertedPendulum": {"reset_noise_scale": 0.1},
    "Pusher": {"reward_near_weight": 2.0, "reward_control_weight": 0.7},
    "Reacher": {"reward_dist_weight": 2.0, "reward_control_weight": 0.3},
    "Swimmer": {"exclude_current_positions_from_observation": False, "forward_reward_weight": 2.0},
    "Walker2d": {"healthy_z_range": (1.0, 1.5), "terminate_when_unhealthy": False},
}  # fmt: skip


def hand_over_state(ours, theirs):
    """Let Gymnasium's env begin where ours begins."""
    world, theirs = ours.unwrapped.world, theirs.unwrapped
    data = mujoco.MjData(world.model)
    mujoco.mj_setState(world.model, data, np.asarray(ours.unwrapped.state.physics), world.state_kind)
    mujoco.mj_resetData(theirs.model, theirs.data)
    theirs.set_state(data.qpos.copy(), data.qvel.copy())
    return theirs._get_obs(), theirs._get_reset_info()


def compare(name, episodes, most_steps, **options):
    """Whether each number is the same to the last bit, or, where it is said so above, to 1e-12."""
    ours_options = options.pop("ours", {})
    ours, theirs = gym.make(f"rookery/{name}-v5", **options, **ours_options), gym.make(f"{name}-v5", **options)
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    assert ours.unwrapped.metadata["render_fps"] == theirs.unwrapped.metadata["render_fps"]
    rounded = ROUNDED.get(name, ())

    def check(key, mine, other):
        mine, other = np.asarray(mine, np.float64), np.asarray(other, np.float64)
        assert np.allclose(mine, other, rtol=0, atol=1e-12) if key in rounded else np.array_equal(mine, other), key

    ours.action_space.seed(1)
    for episode in range(episodes):
        observation, info = ours.reset(seed=episode)
        theirs.reset(seed=episode)
        observed, told = hand_over_state(ours, theirs)
        check("observation", observation, observed)
        for key, value in told.items():
            check(key, info[key], value)
        for _ in range(most_steps):
            action = ours.action_space.sample()
            mine, other = ours.step(action), theirs.step(action)
            check("observation", mine[0], other[0])
            check("reward", mine[1], other[1])
            assert mine[2:4] == other[2:4] and mine[4].keys() == other[4].keys()
            for key, value in other[4].items():
                check(key, mine[4][key], value)
            if mine[2] or mine[3]:
                break
    ours.close(), theirs.close()


@pytest.mark.few(3)
@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_that_of_gymnasium(name):
    """In plain Python, whose numbers are those of compiled code."""
    compare(name, 2, 12, ours={"plain": True})


@pytest.mark.parametrize("name", TASKS)
def test_all_options_are_those_of_gymnasium(name):
    compare(name, 1, 12, **OPTIONS[name], ours={"plain": True})


@pytest.mark.slow
@pytest.mark.timeout(600)  # 20,000 steps of HumanoidStandup in Python take minutes on a busy machine
@pytest.mark.parametrize("name", TASKS)
def test_twenty_episodes_of_compiled_code(name):
    compare(name, 20, 1000)


@pytest.mark.parametrize("spec", MUJOCO, ids=lambda spec: spec.name)
def test_time_limits_are_those_of_gymnasium(spec):
    ours = gym.make(spec.source, plain=True).unwrapped.world
    assert ours.time_limit == gym.spec(spec.original).max_episode_steps


def test_training_takes_the_compiled_version_and_says_so():
    found = find("HalfCheetah-v5")
    assert found.source == "rookery/HalfCheetah-v5" and found.kernel
    assert "using rookery's compiled version" in found.note


def test_options_that_no_task_has_are_refused():
    with pytest.raises(rookery.errors.OptionError, match="did you mean 'ctrl_cost_weight'"):
        gym.make("rookery/Hopper-v5", plain=True, ctrl_cost_wieght=1.0)
