"""What envs return from `step` and `reset` beside the usual, on every backend."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium import spaces

from conformance.compare import record, same
from conformance.worlds import Counter
from rookery.errors import SpaceError, UsageError


class Step(NamedTuple):
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict


class Named(Counter):
    def step(self, action):
        return Step(*super().step(action))


def test_a_named_tuple_is_a_tuple(make):
    """As for Gymnasium, whose own checker accepts one."""
    assert same(record(make(Named, 2), 10), record(make(Counter, 2), 10))


class Forgetful(Counter):
    def step(self, action):
        result = super().step(action)
        return result if self.t < 2 else None


class Wordy(Counter):
    def step(self, action):
        return *super().step(action)[:4], ["a", "list"]


class ScalarStep(Counter):
    def step(self, action):
        return 5


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (Forgetful, "terminated, truncated, info\\), got None"),
        (ScalarStep, "terminated, truncated, info\\), got int"),
        (Wordy, r"info should be a dict, got \['a', 'list'\]"),
    ],
)
def test_a_malformed_step_is_refused(make, world, message):
    """With the env and what came; an env that forgets to return is not taken for one whose episode is over."""
    envs = make(world, 2)
    envs.reset(seed=1)
    with pytest.raises(SpaceError, match=f"env 0, step . of its episode: .*{message}"):
        for _ in range(3):
            envs.step([0, 0])


def test_a_malformed_last_info_is_refused(make):
    """Also where it would be set aside as `final_info`."""
    envs = make(Wordy, 2, autoreset_mode="same_step", env_kwargs={"length": 1})
    envs.reset(seed=1)
    with pytest.raises(SpaceError, match=r"info should be a dict, got \['a', 'list'\]"):
        envs.step([0, 0])


class Moody(Counter):
    """A number under a key that is a dict when the action says so."""

    def step(self, action):
        return *super().step(action)[:4], {"mood": {"deep": 1.0} if action else 0.5}


def test_a_number_from_one_env_and_a_dict_from_another(make):
    """Under one key, when the number already travels without pickling."""
    envs = make(Moody, 2)
    envs.reset(seed=1)
    for _ in range(3):
        assert envs.step([0, 0])[4]["mood"].tolist() == [0.5, 0.5]
    assert envs.step([0, 1])[4]["mood"].tolist() == [0.5, {"deep": 1.0}]


class OldStyle(Counter):
    """Returns its observation alone, whose two numbers could be taken for observation and info."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


def test_a_reset_without_info_is_refused(make):
    """An env written for the old Gym is told what `reset` returns nowadays; its envs are in no episode then."""
    envs = make(OldStyle, 2)
    with pytest.raises(SpaceError, match=r"reset\(\) should return \(observation, info\), got ndarray"):
        envs.reset(seed=1)
    with pytest.raises(UsageError, match="not in an episode"):
        envs.step([0, 0])


class BadSecondEpisode(Counter):
    def reset(self, *, seed=None, options=None):
        if getattr(self, "t", 0):
            raise ValueError("no second episode")
        return super().reset(seed=seed)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_automatic_reset_may_raise_any_error(make, mode):
    """It arrives as it was raised, and the engine continues."""
    envs = make(BadSecondEpisode, 2, autoreset_mode=mode, env_kwargs={"length": 1})
    envs.reset(seed=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no second episode"):
            [envs.step([0, 0]) for _ in range(2)]
        envs.set_attr("t", 0)
        envs.reset(seed=1)


class Locked(Counter):
    def __init__(self):
        super().__init__(length=1)
        self.lock = threading.Lock()

    def step(self, action):
        return *super().step(action)[:4], {"lock": self.lock, "deep": {"lock": self.lock, "t": [self.t]}}


@pytest.mark.parametrize("backend", ["serial", "thread"])
def test_infos_that_cannot_be_copied_arrive_as_they_are(make):
    """In the env's own process any object may be in an info, in that of an episode's last step too."""
    envs = make(Locked, 2, autoreset_mode="same_step")
    envs.reset(seed=1)
    final = envs.step([0, 0])[4]["final_info"]
    assert tuple(final["lock"]) == envs.get_attr("lock")
    assert final["deep"]["t"].tolist() == [[1], [1]]


class Network(Counter):
    """A graph whose nodes are one array, filled again in every step."""

    observation_space = spaces.Graph(spaces.Box(-1000, 1000, (1,)), None)

    def __init__(self):
        super().__init__()
        self.nodes = np.zeros((2, 1), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.graph(), {}

    def step(self, action):
        return self.graph(super().step(action)), 0.0, self.t == self.length, False, {}

    def graph(self, _=None):
        self.nodes[:] = self.t
        return spaces.GraphInstance(self.nodes, None, None)


def test_returned_objects_are_the_callers(make):
    """Observations without a fixed size are copies as well."""
    envs = make(Network, 2)
    seen = [envs.reset(seed=1)[0], *(envs.step([0, 0])[0] for _ in range(3))]
    assert [graphs[1].nodes[0, 0] for graphs in seen] == [0, 1, 2, 3]


class Bytes(Counter):
    action_space = spaces.Box(0, 255, (2,), np.uint8)

    def step(self, action):
        assert action.dtype == np.uint8
        return *super().step(action.sum())[:4], {}


def test_integer_actions_of_any_size_that_fit(make):
    """Python's numbers and wider integers do where their values fit; those that do not are rejected, not wrapped."""
    envs = make(Bytes, 2)
    envs.reset(seed=1)
    assert envs.step([[1, 2], [3, 250]])[1].tolist() == [3.0, 253.0]
    assert envs.step(np.array([[1, 2], [3, 4]], np.int16))[1].tolist() == [3.0, 7.0]
    for wrong in (300, -1):
        with pytest.raises(SpaceError, match=f"actions hold {wrong}, which uint8"):
            envs.step([[1, 2], [3, wrong]])
    with pytest.raises(SpaceError, match=r"dtype uint8.*got float64"):
        envs.step([[1.0, 2.0], [3.0, 4.0]])
