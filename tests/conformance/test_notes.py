"""What the engine accepts and says once: floats of another width, and numbers outside their space."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from conformance.compare import same
from rookery.engine import segment_stepping
from rookery.engine.autotune import probe
from rookery.engine.env_factory import resolve
from rookery.errors import BadValue, SpaceError


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch, caplog):
    """No test hears what another one was told."""
    monkeypatch.setattr(segment_stepping, "_SAID", set())
    caplog.set_level("INFO", "rookery")


class Wide(gym.Env):
    """Returns float64 for a float32 space, as NumPy makes it so easy."""

    observation_space = spaces.Box(1, 2, (2,), np.float32)
    action_space = spaces.Discrete(2)
    dtype: type = np.float64

    def reset(self, *, seed, options):  # both are required
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def step(self, action):
        self.t += 1
        return self._observe(), 1.0, self.t == 5, False, {}

    def _observe(self):
        return self.np_random.uniform(1, 2, 2).astype(self.dtype)


class Narrow(Wide):
    """The same numbers in the dtype of the space."""

    dtype = np.float32


class Leaver(Narrow):
    """Leaves its space in steps 2 and 4, and returns NaN in step 4 if asked to."""

    def __init__(self, nan=False):
        self.nan = nan

    def _observe(self):
        observation = super()._observe()
        if self.t in (2, 4):
            observation[1] = np.nan if self.nan and self.t == 4 else 2.5
        return observation


def play(envs, steps=12):
    return [envs.reset(seed=3), *(envs.step(np.zeros(envs.num_envs, int)) for _ in range(steps))]


@pytest.mark.parametrize(("bad_values", "lines"), [("raise", 1), ("finite", 1), ("restart", 1), ("allow", 0)])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_float64_is_cast_and_said_once(make, caplog, bad_values, lines, mode):
    """In `make_vec` as in `train`; the numbers are those of an env that casts them itself."""
    got = play(make(Wide, 2, bad_values=bad_values, autoreset_mode=mode))
    assert caplog.text.count("Wide: observation is float64, its space float32") == lines
    assert same(got, play(make(Narrow, 2, autoreset_mode=mode)))


def test_other_kinds_of_numbers_are_refused(make):
    """A cast from floats to integers would lose what they say."""
    envs = make(IntegersAsFloats, 2)
    with pytest.raises(SpaceError, match="got dtype float64"):
        envs.reset(seed=1)


class IntegersAsFloats(Wide):
    """Returns floats for an integer space."""

    observation_space = spaces.Box(0, 9, (2,), np.int64)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_leaving_the_space_is_said_once(make, caplog, mode):
    """Where finite numbers are accepted, the first one outside the space is named; a second engine says no more."""
    for lines in (1, 0):
        play(make(Leaver, 3, bad_values="finite", autoreset_mode=mode))
        assert caplog.text.count("Leaver: env 0: observation[1] is 2.5, outside its space [1.0, 2.0]") == lines
        assert caplog.text.count("outside its space") == lines
        caplog.clear()
    with pytest.raises(SpaceError, match="outside its space"):
        play(make(Leaver, 3, autoreset_mode=mode))


def test_after_that_nan_is_still_refused(make):
    """Only the bounds are no longer checked."""
    with pytest.raises(BadValue, match="is nan"):
        play(make(Leaver, 2, bad_values="finite", env_kwargs={"nan": True}))


def test_an_env_that_was_not_reset_has_not_left_its_space(make, caplog):
    """Its row is still zero, which is outside of [1, 2]."""
    envs = make(Narrow, 3, bad_values="finite")
    envs.reset(seed=1, options={"reset_mask": np.array([True, False, False])})
    play(envs)
    assert "outside its space" not in caplog.text


def test_notes_go_where_the_caller_wants_them(make, caplog):
    """A run shows them in its panel."""
    envs, notes = make(Leaver, 2, bad_values="finite"), []
    envs.on_note = notes.append
    play(envs)
    assert len(notes) == 1 and "outside its space" in notes[0] and not caplog.text


def test_measuring_resets_as_the_engine_does():
    """With `seed` and `options` both: an env may require them."""
    assert probe(resolve(Wide), start_method="fork", seconds=0.01).step_seconds > 0
