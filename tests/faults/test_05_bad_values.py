"""Fault 5: NaN or infinity in observations and rewards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rookery
from faults.envs import BadBox, BadDict, BadEnd, Walk, nested
from faults.watch import BACKENDS, play, restarted, same_rows, undisturbed
from rookery.errors import BadValue, RestartLimit

pytestmark = pytest.mark.timeout(30)
Make = Callable[..., rookery.Engine]
BAD = [np.nan, np.inf, -np.inf]


def observation(value: float) -> np.ndarray:
    return np.array([0, value, 0], np.float32)


def three(make: Make, backend: str, bad: Callable, **options: object) -> rookery.Engine:
    """Three envs in two workers, the one in the middle bad."""
    return make([Walk, bad, Walk], backend=backend, workers=1 if backend == "serial" else 2, **options)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_observation_is_refused_at_its_step(make: Make, backend: str, value: float) -> None:
    """The very step that brings it raises BadValue naming env, step and place; nothing is returned to a learner."""
    envs = three(make, backend, partial(BadBox, observation(value)))
    envs.reset(seed=1)
    play(envs, 1)
    with pytest.raises(BadValue, match=rf"env 1, step 2 .*observation\[1\] is {value}") as caught:
        play(envs, 1, first=1)
    assert caught.value.env_index == 1


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_reward_is_refused_at_its_step(make: Make, backend: str, value: float) -> None:
    """The same for rewards."""
    envs = three(make, backend, partial(BadBox, reward=value))
    envs.reset(seed=1)
    play(envs, 1)
    with pytest.raises(BadValue, match=rf"env 1, step 2 .*reward is {value}") as caught:
        play(envs, 1, first=1)
    assert caught.value.env_index == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_first_observation_is_refused_by_reset(make: Make, backend: str) -> None:
    """NaN in the observation of a reset raises in reset."""
    envs = three(make, backend, partial(BadBox, observation(np.nan), at_reset=True))
    with pytest.raises(BadValue, match=r"env 1.*observation\[1\] is nan") as caught:
        envs.reset(seed=1)
    assert caught.value.env_index == 1


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bad_last_observation_is_refused(make: Make, backend: str, mode: str) -> None:
    """NaN in an episode's last observation is found in every autoreset mode, though SAME_STEP puts it aside."""
    envs = make(BadEnd, 1, backend, 1, autoreset_mode=mode)
    envs.reset(seed=1)
    with pytest.raises(BadValue, match=r"env 0.*observation\[0\] is nan"):
        play(envs, 10)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_leaf_of_a_nested_observation_is_named(make: Make, backend: str, value: float) -> None:
    """A bad value deep in a Dict is found, also where the space has no bounds, and its place is named."""
    bad = nested(speed=np.array([1, value], np.float32))
    envs = make([BadDict, partial(BadDict, bad), BadDict], backend=backend, workers=1 if backend == "serial" else 2)
    envs.reset(seed=1)
    envs.step(np.zeros(3, np.int64))
    with pytest.raises(BadValue, match=rf"env 1, step 2 .*\['body'\]\['speed'\]\[1\] is {value}"):
        envs.step(np.zeros(3, np.int64))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize(
    "bad", [{"observation": observation(np.nan)}, {"reward": np.inf}], ids=["observation", "reward"]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_restart_replaces_the_env_and_nobody_sees_the_value(
    make: Make, backend: str, bad: dict, mode: str, diary: Path
) -> None:
    """With bad_values="restart" the env comes back truncated with finite numbers; the others are bit-identical."""
    envs = three(make, backend, partial(BadBox, **bad, path=diary), bad_values="restart", autoreset_mode=mode)
    envs.reset(seed=1)
    results = play(envs, 12)
    assert [restarted(result[4]) for result in results].count([1]) == 1
    assert restarted(results[1][4]) == [1]
    assert results[1][3][1]
    assert all(np.isfinite(result[0]).all() and np.isfinite(result[1]).all() for result in results)
    assert same_rows(results, undisturbed([Walk] * 3, 3, 12, seed=1, autoreset_mode=mode), [0, 2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_restart_at_reset_gives_good_first_observations(make: Make, backend: str, diary: Path) -> None:
    """With bad_values="restart" a reset returns finite observations even if an env's first one was not."""
    envs = three(make, backend, partial(BadBox, observation(np.nan), at_reset=True, path=diary), bad_values="restart")
    observations, _ = envs.reset(seed=1)
    assert np.isfinite(observations).all()
    results = play(envs, 6)
    assert np.isfinite([result[0] for result in results]).all()
    assert same_rows(results, undisturbed([Walk] * 3, 3, 6, seed=1), [0, 2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_restart_has_its_limit(make: Make, backend: str) -> None:
    """An env whose every reset is bad ends in RestartLimit with the first bad value."""
    bad = partial(BadBox, observation(np.nan), at_reset=True)
    envs = three(make, backend, bad, bad_values="restart", max_restarts=2)
    with pytest.raises(RestartLimit, match="is nan"):
        envs.reset(seed=1)
    assert envs.restarts == 2


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("backend", BACKENDS)
def test_allow_hands_the_value_on(make: Make, backend: str, value: float) -> None:
    """With bad_values="allow" observation and reward arrive as the env gave them."""
    envs = three(make, backend, partial(BadBox, observation(value), reward=value), bad_values="allow")
    envs.reset(seed=1)
    observations, rewards, *_ = play(envs, 2)[1]
    np.testing.assert_array_equal(observations[1], observation(value))
    np.testing.assert_array_equal(rewards[1], value)
    assert np.isfinite(rewards[[0, 2]]).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_on_failure_does_not_decide_about_bad_values(make: Make, backend: str) -> None:
    """`on_failure="restart"` alone still raises for bad values: `bad_values` is what decides."""
    envs = three(make, backend, partial(BadBox, reward=np.nan), on_failure="restart")
    envs.reset(seed=1)
    with pytest.raises(BadValue, match="env 1"):
        play(envs, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_but_finite_rewards_are_no_fault(make: Make, backend: str) -> None:
    """Rewards whose sum overflows are finite each, and pass."""
    bad = partial(BadBox, reward=1.7e308)
    envs = make([bad, bad, Walk], backend=backend, workers=1)
    envs.reset(seed=1)
    assert play(envs, 2)[1][1][:2].tolist() == [1.7e308, 1.7e308]
