"""Envs whose observation spaces differ, and spaces of classes that are not Gymnasium's."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import error, spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_differing_spaces

import rookery
from conformance.compare import record, same
from rookery.errors import OptionError, SpaceError, UnequalSpaces


class Sample(gym.Env):
    """Observations are samples of the space that it is given; it ends after four steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, factor=1.0):
        self.observation_space, self.factor = space, factor

    def _observe(self):
        observation = self.observation_space.sample()
        return observation * self.factor if self.factor != 1.0 else observation

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        return self._observe(), float(action), self.t == 4, False, {}


class Words(gym.Space):
    """A space that Gymnasium does not know; its `contains` is of no use for text."""

    def sample(self):
        return "word"

    def contains(self, x):
        return 0 <= x <= 10

    def __eq__(self, other):
        return isinstance(other, Words)


class Speaker(gym.Env):
    """Observations and actions are words."""

    def __init__(self, space=None):
        self.observation_space, self.action_space = space or Words(), Words()

    def _say(self, word):
        return {"said": word, "at": 1} if isinstance(self.observation_space, spaces.Dict) else word

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._say("reset"), {}

    def step(self, action):
        return self._say(f"step({action})"), 0.0, action == "end", False, {}


def makers(all_spaces, factor=1.0):
    return [lambda space=space: Sample(space, factor) for space in all_spaces]


BOXES = [spaces.Box(0, high, (2,), np.float32) for high in (1, 5, 9)]
DISCRETES = [spaces.Discrete(2), spaces.Discrete(7, start=3), spaces.Discrete(4)]
DICTS = [spaces.Dict({"a": box, "b": number}) for box, number in zip(BOXES, DISCRETES, strict=True)]


@pytest.mark.parametrize("different", [BOXES, DISCRETES, DICTS], ids=["box", "discrete", "dict"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name)
def test_spaces_that_differ_in_their_bounds(backend, different, mode):
    """The batched space and the trajectories are SyncVectorEnv's; each env is checked against its own space."""
    options = {"observation_mode": "different", "autoreset_mode": mode}
    mine = rookery.make_vec(makers(different), backend=backend, workers=1, start_method="fork", **options)
    theirs = SyncVectorEnv(makers(different), **options)
    assert mine.observation_space == theirs.observation_space == batch_differing_spaces(different)
    assert mine.single_observation_space == different[0]
    assert same(record(mine, 12), record(theirs, 12))
    mine.close()


def test_values_outside_an_envs_own_space_are_refused():
    """What fits another env's space does not fit this one's."""
    twice = makers(BOXES[1:2]) + makers(BOXES[:1], factor=2.0)
    envs = rookery.make_vec(twice, backend="serial", observation_mode="different")
    with pytest.raises(SpaceError, match="outside its space"):
        for seed in range(20):
            envs.reset(seed=seed)


def test_spaces_of_ones_own():
    """A tuple of the batched space and that of one env, in Gymnasium's order, or the latter alone."""
    batched, single = spaces.Box(0, 9, (3, 2), np.float32), spaces.Box(0, 9, (2,), np.float32)
    for given in ((batched, single), single):
        envs = rookery.make_vec(makers(BOXES), backend="serial", observation_mode=given)
        assert (envs.observation_space, envs.single_observation_space) == (batched, single)
        assert envs.reset(seed=1)[0].shape == (3, 2)
        envs.close()


@pytest.mark.parametrize(
    ("given", "kind"),
    [("invalid", ValueError), (3, ValueError), ((1, 2), TypeError), ((BOXES[0],), ValueError), (None, ValueError)],
)
def test_wrong_modes(given, kind):
    """The message lists what is valid."""
    with pytest.raises(kind, match="observation_mode should be 'same', 'different'") as caught:
        rookery.make_vec(makers(BOXES), backend="serial", observation_mode=given)
    assert isinstance(caught.value, OptionError)


def test_spaces_that_do_not_fit_together(backend):
    """Other shapes, dtypes or kinds cannot be batched, in any mode; "same" names the mode that allows other bounds."""
    options = {"backend": backend, "workers": 1, "start_method": "fork"}
    with pytest.raises(RuntimeError, match="observation_mode='different'"):
        rookery.make_vec(makers(BOXES), **options)
    shapes = [spaces.Box(0, 1, (size,), np.float32) for size in (1, 2)]
    for mode in ("same", "different", (spaces.Box(0, 4, (2, 5)), spaces.Box(0, 4, (5,)))):
        for unequal in (shapes, [shapes[0], spaces.Discrete(2)], [BOXES[0], spaces.Box(0, 1, (2,), np.float64)]):
            with pytest.raises(UnequalSpaces):
                rookery.make_vec(makers(unequal), observation_mode=mode, **options)


def test_envs_with_different_spaces_can_be_added():
    """After `resize` the batched space is that of the envs there are."""
    envs = rookery.make_vec(makers(BOXES), backend="serial", observation_mode="different")
    envs.resize(2)
    assert envs.observation_space == batch_differing_spaces(BOXES[:2])
    envs.resize(3)
    assert envs.observation_space == batch_differing_spaces(BOXES)


@pytest.mark.parametrize(
    "space", [None, spaces.Dict({"said": Words(), "at": spaces.Discrete(2)})], ids=["alone", "dict"]
)
def test_spaces_of_other_classes(backend, space):
    """They are batched as tuples, as SyncVectorEnv does, and never asked whether they contain a value."""
    options = {"backend": backend, "workers": 1, "start_method": "fork", "autoreset_mode": "same_step"}
    mine = rookery.make_vec([lambda: Speaker(space)] * 2, **options)
    theirs = SyncVectorEnv([lambda: Speaker(space)] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    assert mine.observation_space == theirs.observation_space and mine.action_space == theirs.action_space
    assert same(mine.reset(), theirs.reset())
    for actions in (("one", "two"), ("end", "three")):
        assert same(mine.step(actions), theirs.step(actions))
    mine.close()


def test_a_pipe_is_mentioned_once_and_can_be_refused(caplog):
    """Worker processes send such observations through a pipe: one line, none with False, an error with True."""
    caplog.set_level("INFO", "rookery")
    options = {"backend": "process", "workers": 1, "start_method": "fork"}
    for shared_memory, lines in ((None, 1), (False, 0)):
        envs = rookery.make_vec([Speaker] * 2, shared_memory=shared_memory, **options)
        envs.reset()
        envs.close()
        assert caplog.text.count("through a pipe") == lines
        caplog.clear()
    with pytest.raises(error.CustomSpaceError, match="shared_memory=False") as caught:
        rookery.make_vec([Speaker] * 2, shared_memory=True, **options)
    assert isinstance(caught.value, ValueError)


def test_kernel_worlds_have_one_space():
    """Another mode would have no effect."""
    with pytest.raises(OptionError, match="one observation space"):
        rookery.make_vec("rookery/CartPole-v1", 2, observation_mode="different")
