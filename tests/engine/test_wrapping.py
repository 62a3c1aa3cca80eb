"""Wrappers and reward functions that every env of an engine gets."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.config import user_config
from rookery.engine.wrapping import as_wrappers
from rookery.errors import OptionError, WorldError
from rookery.learners.plain_spaces import StackedBox

CODE = """
import gymnasium as gym

class Halved(gym.RewardWrapper):
    def reward(self, reward):
        return reward / 2

def shortened(env):
    return gym.wrappers.TimeLimit(env, 5)

def from_pole(observation, reward):
    return reward - abs(float(observation[2]))

def strange(reward, weather):
    return reward
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "wraps.py"
    path.write_text(CODE)
    return str(path)


@pytest.mark.parametrize("backend", ["serial", "thread", "process"])
def test_every_env_is_wrapped(file: str, backend: str) -> None:
    """By classes, functions and reward functions, from the inside out, in any process."""
    wrappers = [
        f"{file}:shortened",
        f"{file}:from_pole",
        f"{file}:Halved",
        lambda env: gym.wrappers.ClipReward(env, 0, 9),
    ]
    envs = rookery.make_vec("CartPole-v1", 2, backend=backend, workers=2, wrappers=wrappers, autoreset_mode="same_step")
    envs.reset(seed=1)
    for _ in range(5):
        observations, rewards, _, truncated, _ = envs.step(np.zeros(2, int))
        if not truncated.any():
            np.testing.assert_allclose(rewards, (1 - np.abs(observations[:, 2])) / 2, rtol=1e-6)
    assert truncated.all()
    envs.close()


@pytest.mark.parametrize("backend", ["serial", "process"])
@pytest.mark.parametrize(
    ("last", "known"), [("ClipReward", True), ("TimeLimit", True), ("FlattenObservation", False), ("Noise", False)]
)
def test_stacks_of_frames_are_known(backend: str, last: str, known: bool) -> None:
    """Those of Gymnasium's wrapper, unless something else may have changed what it returns."""
    extra = {
        "ClipReward": partial(gym.wrappers.ClipReward, min_reward=0, max_reward=1),
        "TimeLimit": partial(gym.wrappers.TimeLimit, max_episode_steps=9),
        "FlattenObservation": gym.wrappers.FlattenObservation,
        "Noise": lambda env: gym.wrappers.TransformObservation(env, lambda seen: seen / 2, env.observation_space),
    }
    wrappers = [partial(gym.wrappers.FrameStackObservation, stack_size=3), extra[last]]
    envs = rookery.make_vec("CartPole-v1", 2, backend=backend, workers=1, wrappers=wrappers)
    assert isinstance(envs.single_observation_space, StackedBox) == known
    envs.reset(seed=1)
    assert envs.step(np.zeros(2, int))[0].shape == envs.observation_space.shape
    envs.close()


def test_a_wrapped_kernel_world_is_stepped_env_by_env(file: str) -> None:
    """A wrapper is Python: the compiled backend is not chosen, and refused if it is named."""
    envs = rookery.make_vec("rookery/CartPole-v1", 2, workers=1, wrappers=f"{file}:Halved")
    envs.reset(seed=1)
    assert envs.backend != "kernel" and envs.step(np.zeros(2, int))[1].tolist() == [0.5, 0.5]
    envs.close()
    with pytest.raises(OptionError, match="wrappers are Python code"):
        rookery.make_vec("rookery/CartPole-v1", 2, backend="kernel", wrappers=f"{file}:Halved")


@pytest.mark.parametrize(
    ("wrapper", "error", "words"),
    [
        ("nowhere.py:A", OptionError, "there is no file 'nowhere.py'"),
        ("FILE:Nobody", OptionError, "has no class or function 'Nobody' of its own"),
        ("FILE:gym", OptionError, "has no class or function 'gym' of its own"),
        ("FILE:strange", OptionError, "takes reward, weather; its parameters must be among"),
        (3, OptionError, "got 3"),
        (lambda env: 3, WorldError, "should return a gymnasium.Env, but it returned 3"),
    ],
)
def test_what_is_no_wrapper(file: str, wrapper: object, error: type[Exception], words: str) -> None:
    given = wrapper.replace("FILE", file) if isinstance(wrapper, str) else wrapper
    with pytest.raises(error, match=words):
        rookery.make_vec("CartPole-v1", 2, backend="serial", wrappers=[given])


@pytest.mark.parametrize("given", [gym.wrappers.FlattenObservation, "gymnasium.wrappers:FlattenObservation"])
def test_wrappers_of_gymnasium_are_found_by_name(given):
    """They are in no file of the user's, and a run records them."""
    recorded = user_config("CartPole-v1", wrappers=[given]).wrappers
    assert recorded == ["gymnasium.wrappers:FlattenObservation"]
    (wrapper,) = as_wrappers(recorded)
    assert isinstance(wrapper(gym.make("CartPole-v1")), gym.wrappers.FlattenObservation)


def test_a_file_of_an_installed_package_is_not_imported_again():
    """Its folder among the places of modules would hide the user's own."""
    installed = f"{Path(gym.__file__).parent}/wrappers/common.py:TimeLimit"
    before = [*sys.path]
    with pytest.raises(OptionError, match="in an installed package"):
        as_wrappers([installed])
    assert sys.path == before
