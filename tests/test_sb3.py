"""`rookery.sb3.as_vec_env`: SB3's own `DummyVecEnv` is the measure."""

import importlib
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecMonitor, VecNormalize

import rookery
from rookery.errors import MissingExtra, OptionError
from rookery.sb3 import as_vec_env
from sb3_worlds import Counter, Fragile, Pixels, Switches

BACKENDS = [{"backend": "serial"}, {"backend": "process", "workers": 2}]
SMALL = {"seed": 1, "device": "cpu"}
ON_POLICY = {**SMALL, "n_steps": 32, "batch_size": 64, "n_epochs": 2}


def vec(world, num_envs=3, **options):
    options = {"backend": "serial", "autoreset_mode": "same_step", **options}
    return as_vec_env(rookery.make_vec(world, num_envs=num_envs, **options))


def dummy(world, seeds):
    """SB3's own, with these seeds for its next reset."""
    envs = DummyVecEnv([world if callable(world) else lambda: gym.make(world)] * len(seeds))
    envs._seeds = list(seeds)
    return envs


def assert_same(mine, theirs):
    """Equal values, nested in any way; arrays with dtype and shape."""
    if isinstance(theirs, dict):
        assert set(mine) == set(theirs)
        for key in theirs:
            assert_same(mine[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs)
        for pair in zip(mine, theirs, strict=True):
            assert_same(*pair)
    elif isinstance(theirs, np.ndarray):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    else:
        assert mine == theirs


def play_both(mine, theirs, steps, seed=0):
    assert_same(mine.reset(), theirs.reset())
    assert_same(mine.reset_infos, theirs.reset_infos)
    rng, ends = np.random.default_rng(seed), 0
    for _ in range(steps):
        if isinstance(mine.action_space, spaces.Discrete):
            actions = rng.integers(mine.action_space.n, size=mine.num_envs)
        else:
            actions = rng.uniform(-1, 1, (mine.num_envs, *mine.action_space.shape)).astype(np.float32)
        ours, sb3s = mine.step(actions), theirs.step(actions)
        assert_same(ours, sb3s)
        assert_same(mine.reset_infos, theirs.reset_infos)
        ends += int(ours[2].sum())
    mine.close()
    theirs.close()
    return ends


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
@pytest.mark.parametrize("world", ["CartPole-v1", Counter, "FrozenLake-v1"])
def test_same_as_dummy_vec_env(world, options):
    """Observations, rewards, dones, infos and reset infos equal those of DummyVecEnv with the same seeds."""
    mine = vec(world, **options)
    theirs = dummy(world, mine.seed(5))
    assert play_both(mine, theirs, 60) > 3


def test_time_limit_is_told_apart():
    """`TimeLimit.truncated` is True only where an episode was truncated and did not terminate as well."""
    mine = vec(Counter, num_envs=2)
    odd, even = 11, 12
    mine.engine.reset(seed=[odd, even])
    for _ in range(4):
        *_, dones, infos = mine.step(np.zeros(2, int))
    assert dones.tolist() == [True, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True]
    mine.close()


def test_terminal_observation_is_the_last_of_the_old_episode():
    """A done env returns the new episode's first observation and keeps the last one, also from a reused buffer."""
    mine = vec(Counter, num_envs=2, env_kwargs={"reuse": True})
    mine.reset()
    for _ in range(4):
        observations, *_, infos = mine.step(np.ones(2, int))
    assert observations["n"].tolist() == [[0, 0], [0, 0]]
    assert [info["terminal_observation"]["n"].tolist() for info in infos] == [[8, 8], [8, 8]]
    assert [info["count"] for info in infos] == [4, 4]
    assert mine.reset_infos == [{"fresh": 2}, {"fresh": 2}]
    mine.close()


def test_types_are_those_of_sb3():
    """Rewards are float32, dones are bool, numbers in infos are Python's own."""
    mine = vec(Counter)
    mine.reset()
    _, rewards, dones, infos = mine.step(np.zeros(3, int))
    assert (rewards.dtype, dones.dtype) == (np.float32, np.bool_)
    assert type(infos[0]["count"]) is int
    assert isinstance(mine, VecEnv)
    mine.close()


def test_observations_stay_as_they_were():
    """Arrays from an earlier step are not overwritten by a later one."""
    mine = vec("CartPole-v1")
    mine.seed(3)
    first = mine.reset()
    kept = first.copy()
    mine.step(np.zeros(3, int))
    np.testing.assert_array_equal(first, kept)
    mine.close()


def test_seed_reaches_the_next_reset_only():
    """`seed` returns `seed + i`, which the next reset gives to the envs, and the one after does not."""
    mine = vec(Counter)
    seeds = list(mine.seed(42))
    assert seeds == [42, 43, 44]
    assert mine.reset()["seed"][:, 0].tolist() == seeds
    mine.set_attr("first_seed", 7)
    assert mine.reset()["seed"][:, 0].tolist() == [7, 7, 7]
    mine.close()


def test_seed_without_argument_follows_numpy():
    """`seed()` draws from `numpy.random`, so that `set_random_seed` governs it, and all envs differ."""
    mine = vec(Counter)
    np.random.seed(1)
    first = list(mine.seed())
    np.random.seed(1)
    assert list(mine.seed()) == first
    assert len(set(first)) == 3
    mine.close()


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_attributes_by_indices(options):
    """`get_attr`, `set_attr` and `env_method` act on the envs named: None, a number, a list, from the end."""
    mine = vec(Counter, **options)
    mine.set_attr("tag", "all")
    mine.set_attr("tag", ["a", "list"], indices=[0, 2])
    mine.set_attr("tag", "last", indices=-1)
    assert mine.get_attr("tag") == [["a", "list"], "all", "last"]
    assert mine.get_attr("tag", indices=1) == ["all"]
    assert mine.get_attr("tag", indices=np.array([2, 0])) == ["last", ["a", "list"]]
    assert mine.env_method("double", 4, plus=1, indices=[2, 1]) == [9, 9]
    assert mine.env_method("double", 4) == [8, 8, 8]
    with pytest.raises(IndexError):
        mine.get_attr("tag", indices=3)
    with pytest.raises(AttributeError, match="no_such_thing"):
        mine.get_attr("no_such_thing")
    mine.close()


def test_get_attr_does_not_call():
    """Asking for a method, or whether there is one, does not run it."""
    mine = vec(Counter)
    mine.reset()
    (method,) = mine.get_attr("double", indices=0)
    assert method(3) == 6
    assert mine.has_attr("reset")
    assert not mine.has_attr("no_such_thing")
    assert mine.get_attr("resets") == [1, 1, 1]
    mine.close()


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_env_is_wrapped(options):
    """Wrappers around the envs are found, and only those."""
    mine = vec(lambda: Monitor(gym.make("CartPole-v1")), **options)
    assert mine.env_is_wrapped(Monitor) == [True] * 3
    assert mine.env_is_wrapped(gym.wrappers.ClipReward, indices=[0]) == [False]
    mine.close()


def test_options_for_all_and_for_each():
    """`set_options` reaches the next reset only, as one dict for all or a list of one for each."""
    mine = vec(Counter)
    mine.set_options({"level": 1})
    mine.reset()
    assert mine.get_attr("last_options") == [{"level": 1}] * 3
    mine.set_options([{"level": 2}, {}, {"level": 3}])
    seeds = list(mine.seed(9))
    assert mine.reset()["seed"][:, 0].tolist() == seeds
    assert mine.get_attr("last_options") == [{"level": 2}, None, {"level": 3}]
    assert mine.reset_infos == [{"fresh": 2}] * 3
    mine.reset()
    assert mine.get_attr("last_options") == [None] * 3
    with pytest.raises(OptionError, match="each of 3 envs, got 2"):
        mine.set_options([{}, {}])
    mine.close()


def test_pictures():
    """`get_images` gives each env's picture and `render` tiles them; without a render mode there are none."""
    mine = vec(Counter, num_envs=4, env_kwargs={"render_mode": "rgb_array"})
    mine.reset()
    mine.step(np.zeros(4, int))
    assert [int(image.max()) for image in mine.get_images()] == [1, 1, 1, 1]
    assert mine.render().shape == (8, 8, 3)
    mine.close()
    blind = vec(Counter)
    with pytest.warns(UserWarning, match="rgb_array"):
        assert blind.get_images() == [None, None, None]
    blind.close()


def test_metadata_are_the_envs():
    """SB3's VecVideoRecorder takes the frame rate from there."""
    mine = vec(Counter)
    assert mine.metadata == DummyVecEnv([Counter]).metadata == Counter.metadata
    mine.close()


@pytest.mark.parametrize("options", BACKENDS, ids=lambda o: o["backend"])
def test_reset_drops_a_step_under_way(options):
    """As SB3 asks, `reset` may follow `step_async`."""
    mine = vec("CartPole-v1", **options)
    mine.seed(1)
    expected = mine.reset()
    mine.step_async(np.zeros(3, int))
    mine.seed(1)
    np.testing.assert_array_equal(mine.reset(), expected)
    mine.close()


def test_a_restarted_env_is_a_truncated_one():
    """With `on_failure="restart"` SB3 sees a broken env as truncated, so that it bootstraps, and goes on."""
    mine = vec(Fragile, num_envs=2, on_failure="restart")
    mine.reset()
    for _ in range(3):
        _, _, dones, infos = mine.step(np.zeros(2, int))
    assert dones.tolist() == [True, True]
    assert all(info["TimeLimit.truncated"] and info["restarted"] for info in infos)
    assert infos[0]["terminal_observation"]["n"].shape == (2,)
    assert not mine.step(np.zeros(2, int))[2].any()
    mine.close()


def test_batch_size_still_steps_all():
    """An engine made for partial batches gives SB3 all envs in every step."""
    mine = vec("CartPole-v1", num_envs=4, backend="thread", workers=2, batch_size=2)
    theirs = dummy("CartPole-v1", mine.seed(8))
    assert play_both(mine, theirs, 40) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"autoreset_mode": "next_step"}, 'autoreset_mode="same_step"'),
        ({"autoreset_mode": "disabled"}, 'autoreset_mode="same_step"'),
        ({"copy": False}, "copy=True"),
        ({"groups": 2}, "groups=1"),
    ],
)
def test_engines_that_do_not_fit(options, message):
    """An engine that SB3 would misread is rejected, and the error names the option to give."""
    envs = rookery.make_vec("CartPole-v1", 2, "serial", **{"autoreset_mode": "same_step", **options})
    with pytest.raises(OptionError, match=message):
        as_vec_env(envs)
    envs.close()


def test_only_an_engine_is_taken():
    """Anything but rookery's own engine is rejected by name."""
    envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(OptionError, match="SyncVectorEnv"):
        as_vec_env(envs)
    envs.close()


def test_missing_extra(monkeypatch):
    """Without Stable-Baselines3 the import says what to install."""
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.vec_env", None)
    monkeypatch.delitem(sys.modules, "rookery.sb3")
    with pytest.raises(MissingExtra, match=r"pip install 'rookery\[sb3\]'"):
        importlib.import_module("rookery.sb3")


# --- SB3's own parts over it ------------------------------------------------------------------------------------------


def learnt(model):
    return {name: tensor.numpy() for name, tensor in model.policy.state_dict().items()}


@pytest.mark.slow
def test_ppo_learns_the_same_as_on_dummy_vec_env():
    """PPO ends with the very weights it would have on DummyVecEnv."""
    results = []
    for make in (lambda: vec("CartPole-v1", 4), lambda: dummy("CartPole-v1", [None] * 4)):
        envs = make()
        model = PPO("MlpPolicy", envs, **ON_POLICY)
        envs.seed(1)
        start = {name: value.copy() for name, value in learnt(model).items()}
        results.append(learnt(model.learn(256)))
        assert any((start[name] != value).any() for name, value in results[-1].items())
        envs.close()
    for name, value in results[0].items():
        np.testing.assert_array_equal(value, results[1][name])


@pytest.mark.slow
def test_ppo_on_dict_observations_in_processes():
    """MultiInputPolicy learns from Dict observations that come from worker processes, bootstrapping at truncations."""
    envs = VecMonitor(vec(Counter, 4, backend="process", workers=2))
    model = PPO("MultiInputPolicy", VecNormalize(envs), **ON_POLICY).learn(256)
    assert len(model.ep_info_buffer) == 256 // 4
    assert {episode["l"] for episode in model.ep_info_buffer} == {4}
    envs.close()


@pytest.mark.slow
def test_sac_learns():
    """SAC fills its replay buffer, `next_obs` at a truncation being the terminal observation."""
    envs = vec("Pendulum-v1", 2, env_kwargs={"max_episode_steps": 20})
    model = SAC("MlpPolicy", envs, learning_starts=20, train_freq=8, batch_size=16, buffer_size=500, **SMALL).learn(200)
    buffer = model.replay_buffer
    assert model._n_updates > 0
    cut = np.argwhere(buffer.timeouts[: buffer.pos])
    assert len(cut) == 2 * (buffer.pos // 20)
    for step, env in cut[:-2]:
        following = buffer.observations[step + 1, env]
        assert (buffer.next_observations[step, env] != following).any()
    envs.close()


def test_dqn_learns():
    """DQN trains over VecMonitor, which counts the episodes."""
    envs = VecMonitor(vec("CartPole-v1", 4))
    model = DQN("MlpPolicy", envs, learning_starts=40, train_freq=4, batch_size=16, buffer_size=500, **SMALL).learn(400)
    assert model._n_updates > 0
    assert len(model.ep_info_buffer) > 5
    envs.close()


def test_multi_binary_actions():
    """PPO's float samples of MultiBinary actions reach the envs as integers."""
    envs = vec(Switches, 4)
    model = PPO("MlpPolicy", envs, **ON_POLICY).learn(128)  # Switches refuses anything but integers
    assert model.num_timesteps >= 128
    envs.close()


def test_images():
    """CnnPolicy's transposing wrapper works on observations and terminal observations alike."""
    envs = vec(Pixels, 2)
    model = PPO("CnnPolicy", envs, **{**ON_POLICY, "n_steps": 16, "batch_size": 32, "n_epochs": 1}).learn(32)
    assert model.get_env().reset().shape == (2, 3, 36, 36)
    envs.close()


def test_vec_normalize_and_frame_stack_equal_dummys():
    """VecNormalize over VecFrameStack over VecMonitor gives the same numbers as over DummyVecEnv."""
    mine = vec("CartPole-v1")
    theirs = dummy("CartPole-v1", mine.seed(5))
    ours, sb3s = (VecNormalize(VecFrameStack(VecMonitor(envs), 2)) for envs in (mine, theirs))
    assert_same(ours.reset(), sb3s.reset())
    rng, ends = np.random.default_rng(0), 0
    for _ in range(60):
        actions = rng.integers(2, size=3)
        (*arrays, infos), (*their_arrays, their_infos) = ours.step(actions), sb3s.step(actions)
        assert_same(arrays, their_arrays)
        for info, other in zip(infos, their_infos, strict=True):
            if "episode" in other:
                ends += 1
                assert info["episode"]["r"] == other["episode"]["r"]
                assert_same(info["terminal_observation"], other["terminal_observation"])
    assert ends > 3
    ours.close()
    sb3s.close()


def test_monitor_inside_the_envs():
    """An env's own Monitor reports its episodes through the infos of the step that ended them."""
    envs = vec(lambda: Monitor(gym.make("CartPole-v1")), 4)
    model = PPO("MlpPolicy", envs, **ON_POLICY).learn(256)
    assert len(model.ep_info_buffer) > 4
    assert all(episode["r"] == episode["l"] for episode in model.ep_info_buffer)
    envs.close()
