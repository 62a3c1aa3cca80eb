"""`make_vec` of vector envs that are already built: the same envs on its own backends, or what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeAwareObservation
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import rookery
from rookery.errors import WorldError


class Batch(VectorEnv):
    """A vector env that does not say how its envs are made."""

    num_envs = 2
    single_observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    single_action_space = gym.spaces.Discrete(2)


class LikeEnvPool(gym.Env):
    """The parts of EnvPool's interface that say what it is: a Gymnasium Env, with specs of its own."""

    num_envs = 2
    spec: Any = object()
    single_observation_space = observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    single_action_space = action_space = gym.spaces.Discrete(2)


def gravity(value: float) -> Callable[[], gym.Env]:
    return lambda: gym.make("Pendulum-v1", g=value)


def same_steps(envs: Any, made: Any) -> None:
    """Both give the same numbers from the same seed."""
    np.testing.assert_array_equal(envs.reset(seed=3)[0], made.reset(seed=3)[0])
    envs.action_space.seed(1)
    for _ in range(60):
        actions = envs.action_space.sample()
        for theirs, ours in zip(envs.step(actions)[:4], made.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(theirs, ours)
    envs.close()
    made.close()


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_envs_of_gymnasium_are_made_again_with_their_options(backend: str) -> None:
    """As many, and with the same rewards, wherever they are stepped."""
    envs = gym.make_vec("CartPole-v1", 3, vectorization_mode="sync", sutton_barto_reward=True, max_episode_steps=20)
    made = rookery.make_vec(envs, backend=backend, workers=1)
    assert made.num_envs == 3
    same_steps(envs, made)


def test_wrappers_of_each_env_are_kept() -> None:
    """Those that Gymnasium's make_vec puts around every env."""
    envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync", wrappers=[TimeAwareObservation])
    same_steps(envs, rookery.make_vec(envs, backend="serial"))


def test_a_vectorised_env_of_gymnasium_is_made_env_by_env() -> None:
    """By its id, with its time limit and without the options of the vector env."""
    envs = gym.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point", max_episode_steps=7)
    made = rookery.make_vec(envs, backend="serial")
    made.reset(seed=1)
    ends = [made.step(np.array([step % 2] * 2))[3] for step in range(7)]
    assert made.num_envs == 2
    assert [bool(end.all()) for end in ends] == [False] * 6 + [True]
    envs.close()
    made.close()


def test_functions_that_differ_make_their_own_envs() -> None:
    """In their order."""
    envs = SyncVectorEnv([gravity(1.0), gravity(9.0)])
    same_steps(envs, rookery.make_vec(envs, backend="serial"))


def test_one_function_makes_any_number() -> None:
    """`num_envs` may be another than that of the vector env."""
    envs = SyncVectorEnv([gravity(1.0)])
    with closing(rookery.make_vec(envs, num_envs=4, backend="serial")) as made:
        assert made.num_envs == 4
        assert made.get_attr("g") == (1.0,) * 4
    envs.close()


@pytest.mark.parametrize("kind", [Batch, LikeEnvPool])
def test_what_cannot_be_made_again_is_for_train(kind: type) -> None:
    """It is a vector env already."""
    with pytest.raises(WorldError, match=f"{kind.__name__} does not say how .* give it to rookery.train"):
        rookery.make_vec(kind())


def test_a_wrapper_of_the_batch_is_not_dropped_silently() -> None:
    """It can be put around what `make_vec` returns."""
    envs = RecordEpisodeStatistics(SyncVectorEnv([gravity(1.0)]))
    with pytest.raises(WorldError, match=r"without this wrapper: give `envs\.unwrapped`"):
        rookery.make_vec(envs)
    with closing(rookery.make_vec(envs.unwrapped, backend="serial")) as made:
        assert RecordEpisodeStatistics(made).num_envs == 1
    envs.close()


def test_an_engine_is_no_world() -> None:
    """What it was made of is one."""
    with (
        closing(rookery.make_vec("CartPole-v1", 2, backend="serial")) as engine,
        pytest.raises(WorldError, match="is what make_vec has made"),
    ):
        rookery.make_vec(engine)
