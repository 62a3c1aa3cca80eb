"""Fault 6: observations of the wrong shape, dtype, structure or range."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import rookery
from faults.envs import BadBox, BadDict, Walk, nested
from faults.watch import BACKENDS, play, same, same_rows, undisturbed
from rookery.errors import SpaceError

pytestmark = pytest.mark.timeout(30)
Make = Callable[..., rookery.Engine]

WRONG_BOX = {
    "too long": (np.zeros(4, np.float32), r"\(3,\).*got shape \(4,\)"),
    "much too long": (np.zeros(100_000, np.float32), r"\(3,\).*got shape \(100000,\)"),
    "would broadcast": (np.zeros(1, np.float32), r"\(3,\).*got shape \(1,\)"),
    "scalar": (np.float32(0), r"\(3,\).*got shape \(\)"),
    "extra axis": (np.zeros((3, 1), np.float32), r"\(3,\).*got shape \(3, 1\)"),
    "complex": (np.zeros(3, np.complex64), "float32.*got dtype complex64"),
    "text": (np.array(["a", "b", "c"]), "float32.*got dtype <U1"),
    "objects": (np.array([None, 1, 2]), "float32.*got dtype object"),
    "nothing": (None, r"\(3,\).*got"),
    "ragged": ([[1.0], [1.0, 2.0], 3.0], r"\(3,\).*got"),
    "too high": (np.array([0, 2e6, 0], np.float32), r"\[1\] is 2000000.*outside its space \[-1000000.*1000000"),
    "too low": (np.array([0, 0, -2e6], np.float32), r"\[2\] is -2000000.*outside its space"),
}
WRONG_DICT = {
    "missing key": ({"camera": nested()["camera"]}, "body.*camera.*got.*camera"),
    "other key": ({"camera": nested()["camera"], "corpus": nested()["body"]}, "body.*got.*corpus"),
    "extra key": ({**nested(), "extra": 1}, "extra"),
    "missing inner key": ({**nested(), "body": {"gear": 1}}, "speed.*got.*gear"),
    "no dict": (np.zeros(3), "camera.*got ndarray"),
    "leaf shape": (nested(camera=np.zeros((2, 3), np.uint8)), r"\['camera'\].*\(2, 2\).*got shape \(2, 3\)"),
    "leaf dtype": (nested(camera=np.full((2, 2), 300)), r"\['camera'\].*uint8.*got dtype int64"),
    "leaf range": (nested(gear=np.int64(5)), r"\['body'\]\['gear'\] is 5, outside its space \[0, 4\]"),
}


def named(cases: dict[str, tuple[Any, str]]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in cases.items()]


class NothingAtSecondStep(BadBox):
    """None in place of an observation (which BadBox takes for "no change")."""

    def __init__(self) -> None:
        super().__init__(observation=np.zeros(3, np.float32))

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        observation, *rest = super().step(action)
        return (None if self.steps == 2 and self.resets == 1 else observation), *rest  # type: ignore[return-value]


def wrong(bad: Any) -> Callable[[], Any]:
    return NothingAtSecondStep if bad is None else partial(BadBox, bad)


@pytest.mark.parametrize(("bad", "message"), named(WRONG_BOX))
@pytest.mark.parametrize("backend", BACKENDS)
def test_expected_and_got_are_named_and_neighbours_are_untouched(
    make: Make, backend: str, bad: Any, message: str
) -> None:
    """SpaceError names what the space asks for and what came; the rows before and after it keep their numbers."""
    envs = make([Walk, Walk, wrong(bad), Walk, Walk], backend=backend, workers=1)
    envs.reset(seed=1)
    first = play(envs, 1)
    with pytest.raises(SpaceError, match=message) as caught:
        play(envs, 1, first=1)
    assert "env 2, step 2" in str(caught.value)
    assert caught.value.env_index == 2
    expected = undisturbed([Walk] * 5, 5, 10, seed=1)
    canary = envs.batch.observations.take(slice(None))
    assert same(canary[[0, 1, 3, 4]], expected[1][0][[0, 1, 3, 4]])
    assert same_rows(first + play(envs, 8, first=2), expected[:1] + expected[2:], [0, 1, 3, 4])


@pytest.mark.few(4)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize(("bad", "message"), named(WRONG_BOX))
def test_restart_leaves_neighbours_alone(make: Make, bad: Any, message: str, mode: str) -> None:
    """With bad_values="restart" the neighbours' trajectories are bit-identical to an undisturbed run."""
    worlds = [Walk, Walk, wrong(bad), Walk, Walk]
    envs = make(worlds, backend="process", workers=1, bad_values="restart", autoreset_mode=mode, max_restarts=9)
    envs.reset(seed=1)
    expected = undisturbed([Walk] * 5, 5, 10, seed=1, autoreset_mode=mode)
    assert same_rows(play(envs, 10), expected, [0, 1, 3, 4])
    assert envs.restarts >= 1


@pytest.mark.parametrize(("bad", "message"), named(WRONG_DICT))
@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_observations_are_checked_leaf_by_leaf(make: Make, backend: str, bad: Any, message: str) -> None:
    """A nested observation with wrong keys or a wrong leaf is rejected, and the neighbours' leaves are untouched."""
    envs = make([BadDict, partial(BadDict, bad), BadDict], backend=backend, workers=1)
    envs.reset(seed=1)
    envs.step(np.zeros(3, np.int64))
    with pytest.raises(SpaceError, match=message) as caught:
        envs.step(np.zeros(3, np.int64))
    assert "env 1, step 2" in str(caught.value)
    observations, *_ = envs.step(np.zeros(3, np.int64))
    good = nested()
    for row in range(3):
        assert same(observations["camera"][row], good["camera"])
        assert same(observations["body"]["speed"][row], good["body"]["speed"])
        assert observations["body"]["gear"][row] == good["body"]["gear"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wrong_first_observation_is_refused_by_reset(make: Make, backend: str) -> None:
    """The same check holds for the observation of a reset."""
    envs = make([Walk, partial(BadBox, np.zeros(4, np.float32), at_reset=True)], backend=backend, workers=1)
    with pytest.raises(SpaceError, match=r"env 1.*\(3,\).*got shape \(4,\)"):
        envs.reset(seed=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_allow_casts_but_never_lets_a_shape_through(make: Make, backend: str) -> None:
    """With bad_values="allow" a double is cast and a value may lie outside, but a wrong shape is still refused."""
    allowed = np.array([0, 3e6, 0], np.float64)
    envs = make([Walk, partial(BadBox, allowed)], backend=backend, workers=1, bad_values="allow")
    envs.reset(seed=1)
    assert same(play(envs, 2)[1][0][1], allowed.astype(np.float32))
    refused = make([Walk, partial(BadBox, np.zeros(1, np.float32))], backend=backend, workers=1, bad_values="allow")
    refused.reset(seed=1)
    with pytest.raises(SpaceError, match=r"got shape \(1,\)"):
        play(refused, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reward_that_is_no_number_is_refused(make: Make, backend: str) -> None:
    """A reward must be a number; the error names the env and what came."""
    envs = make([Walk, partial(BadBox, reward="much")], backend=backend, workers=1)
    envs.reset(seed=1)
    with pytest.raises(SpaceError, match=r"env 1.*reward should be a number, got 'much'"):
        play(envs, 2)
