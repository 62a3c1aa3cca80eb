"""`rookery.sb3.VecEnv` in the place of SB3's `SubprocVecEnv` and `DummyVecEnv`, and actions of any space."""

import threading

import gymnasium as gym
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecNormalize

import rookery
import rookery.sb3
from rookery.errors import OptionError, SpaceError, WorldError
from sb3_worlds import HYBRID, Acting, Counter, Pixels

SERIAL = {"backend": "serial"}
PROCESS = {"backend": "process", "workers": 2}
BACKENDS = pytest.mark.parametrize("options", [SERIAL, PROCESS], ids=lambda options: options["backend"])


@pytest.mark.few(1)
@BACKENDS
def test_make_vec_env(options):
    """SB3's `make_vec_env` makes ours by `vec_env_cls` and `vec_env_kwargs`, with the trajectories of its own."""
    mine = make_vec_env("CartPole-v1", 3, seed=7, vec_env_cls=rookery.sb3.VecEnv, vec_env_kwargs=options)
    theirs = make_vec_env("CartPole-v1", 3, seed=7)
    assert isinstance(mine, VecEnv)
    np.testing.assert_array_equal(mine.reset(), theirs.reset())
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.integers(2, size=3)
        for ours, other in zip(mine.step(actions)[:3], theirs.step(actions)[:3], strict=True):
            np.testing.assert_array_equal(ours, other)
    assert mine.env_is_wrapped(Monitor) == [True] * 3
    assert mine.render_mode == "rgb_array"
    mine.close()
    theirs.close()


def test_start_method_means_processes():
    """As with `SubprocVecEnv`, the second argument is the start method; the envs then step in processes."""
    mine = rookery.sb3.VecEnv([Counter, Counter], "fork")
    assert (mine.engine.backend, mine.engine.settings.start_method) == ("process", "fork")
    with pytest.raises(AttributeError, match='backend="serial"'):
        mine.envs  # noqa: B018
    mine.close()
    with pytest.raises(ValueError, match="cannot find context for 'teleport'"):
        rookery.sb3.VecEnv([Counter], start_method="teleport")
    with pytest.raises(ValueError, match=r"for 2: the second argument is start_method, as of SubprocVecEnv, one"):
        rookery.sb3.VecEnv([Counter], 2)
    with pytest.raises(ValueError, match="needs a list of functions that build envs, one for each, got 'CartPole-v1'"):
        rookery.sb3.VecEnv("CartPole-v1", 2)


def test_envs_of_this_process():
    """`.envs` are the envs themselves, as in `DummyVecEnv`; attributes set from outside are there."""
    mine = rookery.sb3.VecEnv([lambda: Monitor(Counter())] * 2, **SERIAL)
    mine.set_attr("dummy", 12, indices=1)
    assert mine.envs[1].dummy == 12
    assert not hasattr(mine.envs[0], "dummy")
    mine.close()


@pytest.mark.parametrize("options", [SERIAL, {"backend": "process", "workers": 1}], ids=lambda o: o["backend"])
def test_the_same_env_twice(options):
    """A function that returns the same env again is rejected, as by `DummyVecEnv`."""
    env = Counter()
    with pytest.raises(ValueError, match="returned the same Counter twice"):
        rookery.sb3.VecEnv([lambda: env, lambda: env], **options)


@pytest.mark.parametrize("env_fns", [[], Counter, [Counter()], None], ids=["none", "one", "env", "None"])
def test_not_a_list_of_functions(env_fns):
    """Anything but a list of functions is rejected."""
    with pytest.raises(WorldError):
        rookery.sb3.VecEnv(env_fns)


def test_functions_that_cannot_be_sent_to_processes(caplog):
    """With "auto" the envs stay here, as in `DummyVecEnv`; with "process" the error says what to do."""
    lock = threading.Lock()
    env_fns = [lambda: Counter(limit=4 if lock else 5)] * 2
    with caplog.at_level("INFO", "rookery"):
        mine = rookery.sb3.VecEnv(env_fns)
    assert mine.engine.backend == "serial"
    assert "cannot be sent to worker processes" in caplog.text
    mine.close()
    with pytest.raises(WorldError, match="backend='serial'"):
        rookery.sb3.VecEnv(env_fns, start_method="fork")


def test_options_that_are_not_free():
    """The options that SB3 fixes are rejected by name."""
    with pytest.raises(OptionError, match="autoreset_mode"):
        rookery.sb3.VecEnv([Counter], autoreset_mode="next_step")


def test_nested_observations():
    """SB3 knows no Dict within a Dict of observations: its own error says so."""

    class Nested(Counter):
        observation_space = spaces.Dict(a=spaces.Dict(b=spaces.Discrete(2)))

    with pytest.raises(NotImplementedError, match=r"[Nn]ested"):
        rookery.sb3.VecEnv([Nested], **SERIAL)


def test_step_without_reset():
    """Envs that were never reset are reset first, with the seed that was given."""
    mine = rookery.sb3.VecEnv([Counter] * 2, **SERIAL)
    mine.seed(5)
    observations, *_ = mine.step(np.zeros(2, int))
    assert observations["seed"][:, 0].tolist() == [5, 6]
    assert mine.get_attr("resets") == [1, 1]
    mine.close()


def test_reset_without_options():
    """As in SB3, an env's `reset` need not take options, below wrappers too; it gets them where there are some."""

    class Simple(gym.Env):
        observation_space = action_space = spaces.Discrete(3)

        def reset(self, seed=None):
            return 1, {"seed": seed}

        def step(self, action):
            return action, 0.0, True, False, {}

    mine = rookery.sb3.VecEnv([lambda: Monitor(Simple())] * 2, **SERIAL)
    mine.seed(4)
    assert mine.reset().tolist() == [1, 1]
    assert [info["seed"] for info in mine.reset_infos] == [4, 5]
    assert mine.step(np.array([0, 2]))[3][1]["terminal_observation"] == 2
    mine.set_options({"level": 1})
    with pytest.raises(TypeError, match="options"):
        mine.reset()
    mine.close()


def test_values_outside_the_space_are_let_through():
    """As in SB3, where `VecCheckNan` is there for them."""

    class Broken(Pixels):
        observation_space = spaces.Box(0, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.array([np.nan]), {}

    mine = rookery.sb3.VecEnv([Broken], **SERIAL)
    assert np.isnan(mine.reset()).all()
    assert mine.observation_space.dtype == mine.reset().dtype == np.float32
    mine.close()


def test_close_twice_and_during_a_step():
    """`close` may be called again, and while a step is under way; no worker is left."""
    rookery.sb3.VecEnv([Counter] * 2, **PROCESS).close()  # what starts workers stays
    before = set(psutil.Process().children(recursive=True))
    mine = rookery.sb3.VecEnv([Counter] * 2, **PROCESS)
    mine.reset()
    assert len(set(psutil.Process().children(recursive=True)) - before) >= 2
    mine.step_async(np.zeros(2, int))
    mine.close()
    mine.close()
    assert not set(psutil.Process().children(recursive=True)) - before


# --- actions of any space -------------------------------------------------------------------------------------------


def total(action):
    parts = [action["choice"], action["force"].sum(dtype=np.float32), *(part.sum() for part in action["more"])]
    return float(np.float32(sum(np.float32(part) for part in parts)))


@BACKENDS
def test_lists_of_dicts(options):
    """Dict actions are given as SB3 gives them, one dict for each env."""
    mine = rookery.sb3.VecEnv([Acting] * 3, **options)
    mine.reset()
    mine.action_space.seed(3)
    for _ in range(3):
        actions = [mine.action_space.sample() for _ in range(3)]
        rewards = mine.step(actions)[1]
        np.testing.assert_allclose(rewards, [total(action) for action in actions], rtol=1e-5)
    assert mine.action_space == HYBRID
    mine.close()


def test_lists_of_tuples_and_batches():
    """Tuple actions: one tuple for each env, in a list, tuple or array of objects, or Gymnasium's tuple of arrays."""
    space = spaces.Tuple((spaces.Discrete(9), spaces.Discrete(9)))
    mine = rookery.sb3.VecEnv([lambda: Acting(space)] * 3, **SERIAL)
    mine.reset()
    each = [(1, 2), (3, 4), (5, 6)]
    objects = np.empty(3, object)
    objects[:] = each
    for actions in (each, tuple(each), objects, (np.array([1, 3, 5]), np.array([2, 4, 6]))):
        assert mine.step(actions)[1].tolist() == [3, 7, 11]
    for wrong in (each[:2], [(1, 2, 3)] * 3, [{"a": 1}] * 3):
        with pytest.raises(SpaceError):
            mine.step_async(wrong)
    mine.close()


def test_whole_numbers_as_floats():
    """Floats that are whole numbers are taken where integers are due, others are rejected."""
    mine = rookery.sb3.VecEnv([Counter] * 2, **SERIAL)
    mine.reset()
    assert mine.step(np.array([1.0, 2.0]))[0]["n"][:, 0].tolist() == [2, 3]
    with pytest.raises(SpaceError, match="dtype"):
        mine.step(np.array([0.5, 1.0]))
    mine.close()


def test_too_many_numbers():
    """SB3's `DummyVecEnv` does not look at surplus rows; here they are dropped with a warning. Too few are rejected."""
    mine = rookery.sb3.VecEnv([Counter] * 2, **SERIAL)
    mine.reset()
    with pytest.warns(UserWarning, match=r"\(3,\) are cut to \(2,\)"):
        assert mine.step(np.array([1, 2, 0]))[0]["n"][:, 0].tolist() == [2, 3]
    with pytest.raises(SpaceError, match="shape"):
        mine.step(np.array([1]))
    mine.close()


def test_flat_discrete_actions():
    """Discrete parts only: a MultiDiscrete, whose numbers reach their parts with their starts."""
    space = spaces.Dict({"a": spaces.Discrete(3, start=-1), "b": HYBRID["more"]})
    mine = rookery.sb3.VecEnv([lambda: Acting(space)] * 2, flatten_actions=True, **SERIAL)
    assert mine.action_space == spaces.MultiDiscrete([3, 2, 2, 2, 3])
    mine.reset()
    rewards = mine.step(np.array([[0, 0, 0, 0, 0], [2, 1, 1, 1, 2]]))[1]
    assert rewards.tolist() == [-1 + 5, 1 + 2 + 1 + 7]
    with pytest.raises(SpaceError, match=r"\(envs, 5\)"):
        mine.step(np.zeros((2, 4), int))
    mine.close()


def test_flat_mixed_actions():
    """With a Box part: one Box from -1 to 1, scaled to its bounds, of which choices take the largest number."""
    mine = rookery.sb3.VecEnv([Acting] * 2, flatten_actions=True, **SERIAL)
    assert mine.action_space == spaces.Box(-1, 1, (3 + 2 + 2 + 5,), np.float32)
    mine.reset()
    #        choice     force    bits       2 and 3 values
    first = [[0, 1, 0], [0, 0], [1, -1], [0, 1], [0, 0, 1]]
    second = [[1, 0, 0], [9, -1], [-1, -1], [1, 0], [1, 0, 0]]
    rewards = mine.step(np.array([np.concatenate(parts) for parts in (first, second)], np.float32))[1]
    assert rewards.tolist() == [2 + (0 + 5) + 1 + (1 + 7), 1 + (2 + 0) + 0 + (0 + 5)]
    mine.close()


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Dict(a=spaces.Box(-np.inf, np.inf, (1,)), b=spaces.Discrete(2)), "finite bounds"),
        (spaces.Tuple((spaces.Text(3), spaces.Discrete(2))), r"the part \[0\] of the actions is Text"),
    ],
)
def test_what_cannot_be_flat(space, message):
    """A part that cannot be translated is named."""
    with pytest.raises(OptionError, match=message):
        rookery.sb3.VecEnv([lambda: Acting(space)], flatten_actions=True, **SERIAL)


def test_spaces_that_sb3_knows_stay():
    """`flatten_actions` changes no space in which SB3's algorithms act already."""
    for space in (spaces.Discrete(3), spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]), spaces.Box(0, 5, (2,))):
        mine = rookery.sb3.VecEnv([lambda space=space: Acting(space)], flatten_actions=True, **SERIAL)
        assert mine.action_space == space
        mine.close()


@pytest.mark.parametrize("space", [HYBRID, HYBRID["more"]], ids=["mixed", "discrete"])
def test_ppo_acts_in_flat_actions(space):
    """SB3's PPO trains on mixed and on discrete Dict actions; `Acting` refuses an action outside its space."""
    envs = rookery.make_vec(Acting, 2, "serial", autoreset_mode="same_step", env_kwargs={"space": space})
    vec_env = rookery.sb3.as_vec_env(envs, flatten_actions=True)
    model = PPO("MlpPolicy", vec_env, n_steps=32, batch_size=64, n_epochs=1, seed=1, device="cpu").learn(64)
    assert vec_env.action_space.contains(model.predict(np.zeros((1, 2), np.float32))[0][0])
    vec_env.close()


def test_wrappers_of_sb3():
    """VecNormalize over VecFrameStack over ours equals the same over `DummyVecEnv`."""
    fns = [lambda: gym.make("Pendulum-v1")] * 2
    mine, theirs = (
        VecNormalize(VecFrameStack(made, 2)) for made in (rookery.sb3.VecEnv(fns, **SERIAL), DummyVecEnv(fns))
    )
    mine.seed(3)
    theirs.seed(3)
    np.testing.assert_array_equal(mine.reset(), theirs.reset())
    for _ in range(10):
        actions = [[0.5], [-0.5]]
        for ours, other in zip(mine.step(actions)[:3], theirs.step(actions)[:3], strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-6)
    mine.close()
    theirs.close()
