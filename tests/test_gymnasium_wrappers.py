"""Gymnasium's vector wrappers over a rookery engine give what they give over Gymnasium's own `SyncVectorEnv`."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

import rookery

SEEDS = [31, 7, 12]
SAME_STEP, NEXT_STEP, DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED


class Walk(gym.Env):
    """A random walk with Dict observations, an image among them, and infos of every kind."""

    observation_space = spaces.Dict(
        {"at": spaces.Box(-50, 50, (2,), np.float32), "eye": spaces.Box(0, 255, (4, 4, 3), np.uint8)}
    )
    action_space = spaces.Box(-2, 2, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._observation(), {"start": float(self.at[0])}

    def step(self, action):
        self.at = np.clip(self.at + action, -50, 50).astype(np.float32)
        distance = float(np.abs(self.at).max())
        info = {"distance": distance, "deep": {"at": self.at.copy()}}
        if distance > 3:
            info["note"] = f"far at {distance:.3f}"
        return self._observation(), distance, distance > 6, bool(self.np_random.random() < 0.05), info

    def _observation(self):
        shade = np.clip(100 + 10 * self.at[0], 0, 255)
        return {"at": self.at.copy(), "eye": np.full((4, 4, 3), shade, np.uint8)}


def pair(world, mode=NEXT_STEP, **options):
    """The same three envs under rookery and under Gymnasium."""
    options = {"backend": "serial", **options}
    maker = world if callable(world) else lambda: gym.make(world)
    mine = rookery.make_vec(world, len(SEEDS), autoreset_mode=mode, **options)
    return mine, SyncVectorEnv([maker] * len(SEEDS), autoreset_mode=mode)


def assert_same(mine, theirs, skip=()):
    """Equal values and, for arrays, equal shapes; the times that episodes took are left out by `skip`."""
    if isinstance(theirs, dict):
        assert set(mine) == set(theirs)
        for key in set(theirs) - set(skip):
            assert_same(mine[key], theirs[key], skip)
    elif isinstance(theirs, (list, tuple)) or (isinstance(theirs, np.ndarray) and theirs.dtype == object):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert_same(a, b, skip)
    elif isinstance(theirs, np.ndarray):
        assert isinstance(mine, np.ndarray)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    else:
        assert mine == theirs


def play_both(mine, theirs, steps=80, skip=()):
    """Step both with the same actions; returns how many episodes ended."""
    assert mine.observation_space == theirs.observation_space
    assert mine.action_space == theirs.action_space
    assert_same(mine.reset(seed=SEEDS), theirs.reset(seed=SEEDS), skip)
    mine.action_space.seed(1)
    ends = 0
    for _ in range(steps):
        actions = mine.action_space.sample()
        ours, gymnasiums = mine.step(actions), theirs.step(actions)
        assert_same(ours, gymnasiums, skip)
        ends += int((ours[2] | ours[3]).sum())
    mine.close()
    theirs.close()
    return ends


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
@pytest.mark.parametrize("options", [{}, {"backend": "process", "workers": 2}], ids=["serial", "process"])
def test_record_episode_statistics(mode, options):
    """Returns and lengths are recorded as over SyncVectorEnv, in both autoreset modes."""
    mine, theirs = (wrappers.RecordEpisodeStatistics(envs) for envs in pair("CartPole-v1", mode, **options))
    assert play_both(mine, theirs, skip=("t",)) > 3
    assert list(mine.return_queue) == list(theirs.return_queue)
    assert list(mine.length_queue) == list(theirs.length_queue)
    assert mine.episode_count == theirs.episode_count


def test_recorded_statistics_are_the_engines_own():
    """`finished_episodes()` tells the same returns and lengths as the wrapper."""
    engine = rookery.make_vec("CartPole-v1", 3, "serial")
    envs = wrappers.RecordEpisodeStatistics(engine)
    envs.reset(seed=1)
    for _ in range(80):
        envs.step(np.zeros(3, int))
    episodes = engine.finished_episodes()
    assert episodes["return"].tolist() == list(envs.return_queue)
    assert episodes["length"].tolist() == list(envs.length_queue)
    envs.close()


def test_normalize_observation():
    """Running means of observations are the same."""
    mine, theirs = (wrappers.NormalizeObservation(envs) for envs in pair("CartPole-v1"))
    assert play_both(mine, theirs) > 3
    np.testing.assert_array_equal(mine.obs_rms.mean, theirs.obs_rms.mean)


def test_normalize_observation_needs_next_step():
    """The wrapper reads the engine's autoreset mode, and refuses those it cannot serve."""
    mine, theirs = pair("CartPole-v1", SAME_STEP)
    with pytest.raises(ValueError, match="NEXT_STEP"):
        wrappers.NormalizeObservation(mine)
    mine.close()
    theirs.close()


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_normalize_reward(mode):
    """Rewards are scaled by the same running variance, in both autoreset modes."""
    mine, theirs = (wrappers.NormalizeReward(envs) for envs in pair(Walk, mode))
    assert play_both(mine, theirs) > 3
    assert mine.return_rms.var == theirs.return_rms.var


def test_clip_reward():
    """Rewards are clipped."""
    mine, theirs = (wrappers.ClipReward(envs, 1.0, 2.0) for envs in pair(Walk))
    assert play_both(mine, theirs) > 3


def test_transform_reward():
    """A function of the rewards is applied to the whole batch."""
    mine, theirs = (wrappers.TransformReward(envs, lambda rewards: 3 * rewards + 1) for envs in pair(Walk))
    assert play_both(mine, theirs) > 3


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_dict_info_to_list(mode):
    """One info dict per env: the engine's columns and masks are in Gymnasium's form, nested and final ones too."""
    mine, theirs = (wrappers.DictInfoToList(envs) for envs in pair(Walk, mode))
    assert play_both(mine, theirs) > 3


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
@pytest.mark.parametrize("options", [{}, {"backend": "process", "workers": 2}], ids=["serial", "process"])
def test_without_wrappers(mode, options):
    """The bare engine equals SyncVectorEnv: observations, rewards, ends and infos with their masks."""
    assert play_both(*pair(Walk, mode, **options)) > 3


def test_transform_observation():
    """A function of the observations is applied to the whole batch, with its new space."""
    space = spaces.Box(-100, 100, (2,), np.float32)
    mine, theirs = (
        wrappers.TransformObservation(envs, lambda batch: batch["at"] * 2, single_observation_space=space)
        for envs in pair(Walk)
    )
    assert play_both(mine, theirs) > 3


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.FlattenObservation,
        lambda envs: wrappers.FilterObservation(envs, ["at"]),
        lambda envs: wrappers.GrayscaleObservation(eye_only(envs)),
        lambda envs: wrappers.ReshapeObservation(eye_only(envs), (16, 3)),
        lambda envs: wrappers.RescaleObservation(eye_only(envs), 0, 1),
        lambda envs: wrappers.DtypeObservation(eye_only(envs), np.float32),
    ],
    ids=["flatten", "filter", "grayscale", "reshape", "rescale", "dtype"],
)
def test_observation_wrappers(wrap):
    """Wrappers that go through a batch env by env find each env's observation in it, nested ones too."""
    mine, theirs = (wrap(envs) for envs in pair(Walk))
    assert play_both(mine, theirs, steps=40) > 1


def eye_only(envs):
    space = Walk.observation_space["eye"]
    return wrappers.TransformObservation(envs, lambda batch: batch["eye"], single_observation_space=space)


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.ClipAction,
        lambda envs: wrappers.RescaleAction(envs, np.float32(-1), np.float32(1)),
        lambda envs: wrappers.TransformAction(envs, lambda actions: actions / 2),
    ],
    ids=["clip", "rescale", "transform"],
)
def test_action_wrappers(wrap):
    """Actions are changed on their way to the envs."""
    mine, theirs = (wrap(envs) for envs in pair(Walk))
    assert play_both(mine, theirs, steps=40) >= 1


def test_wrappers_hand_a_reset_mask_on():
    """With autoreset disabled, a partial reset reaches the engine through a wrapper and restarts only its statistics.

    (SyncVectorEnv takes the mask out of the caller's options, so that the wrapper outside it restarts all of them.)
    """
    engine, theirs = pair("CartPole-v1", DISABLED)
    mine = wrappers.RecordEpisodeStatistics(engine)
    assert_same(mine.reset(seed=SEEDS), theirs.reset(seed=SEEDS))
    for _ in range(60):
        ours, gymnasiums = mine.step(np.ones(3, int)), theirs.step(np.ones(3, int))
        assert_same(ours[:4], gymnasiums[:4])
        done = ours[2] | ours[3]
        if done.any():
            again = [envs.reset(seed=SEEDS, options={"reset_mask": done.copy()}) for envs in (mine, theirs)]
            assert_same(*again)
    lengths = engine.finished_episodes()["length"].tolist()
    assert len(lengths) > 3
    assert list(mine.length_queue) == lengths
    mine.close()
    theirs.close()


def test_views_do_not_reach_through_a_copying_wrapper():
    """With `copy=False` observations are views, and a wrapper that computes new ones still gives fresh arrays."""
    engine = rookery.make_vec("CartPole-v1", 3, "serial", copy=False)
    envs = wrappers.TransformObservation(engine, lambda batch: batch * 2)
    observations, _ = envs.reset(seed=SEEDS)
    kept = observations.copy()
    envs.step(np.zeros(3, int))
    np.testing.assert_array_equal(observations, kept)
    envs.close()
