"""From one integer seed, the engine yields the trajectories of Gymnasium's SyncVectorEnv, bit for bit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rookery
from conformance.compare import same
from conformance.worlds import Counter, Informer
from kernel.samples import Steerer, Walker
from rookery.engine.seeding import ChildSeeds, child_seed
from rookery.kernel.kernel_env import KernelEnv

WORLDS = ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1", Informer]  # Blackjack's spaces are tuples
KERNEL_WORLDS = ["rookery/CartPole-v1", Walker, Steerer]
MODES = list(AutoresetMode)
STEPS = 500
BY_NAME = {"argvalues": MODES, "ids": [mode.name.lower() for mode in MODES]}


def sync(world, num_envs, mode):
    """Gymnasium's own vector env of a world."""
    if not isinstance(world, str):
        maker = world if issubclass(world, gym.Env) else lambda: KernelEnv(world)
    else:
        maker = lambda: gym.make(world)  # noqa: E731
    return SyncVectorEnv([maker] * num_envs, autoreset_mode=mode)


def play(envs, mode, seed=7, steps=STEPS):
    """What a reset and `steps` steps return. With autoreset off, ended envs are reset by mask, with seeds."""
    envs.action_space.seed(3)
    yield envs.reset(seed=seed)
    for t in range(steps):
        yield (result := envs.step(envs.action_space.sample()))
        ended = result[2] | result[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            yield envs.reset(seed=None if t % 2 else 100 + t, options={"reset_mask": ended})


def assert_same_as_sync(world, mode, steps=STEPS, num_envs=3, **options):
    mine, theirs = rookery.make_vec(world, num_envs, autoreset_mode=mode, **options), sync(world, num_envs, mode)
    try:
        for t, pair in enumerate(zip(play(mine, mode, steps=steps), play(theirs, mode, steps=steps), strict=True)):
            assert same(_as_wide_as(*pair), pair[1]), f"{world}, call {t}: {pair[0]} instead of {pair[1]}"
    finally:
        mine.close(), theirs.close()


def _as_wide_as(mine, theirs):
    """A result with the infos in Gymnasium's types: the first env with a key decides the type of its column there, so
    that FrozenLake's prob of 1/3 becomes 0 beside the 1 of an env that was reset. The engine's column holds both."""
    return *mine[:-1], _cast(mine[-1], theirs[-1])


def _cast(mine, theirs):
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return {key: _cast(value, theirs.get(key)) for key, value in mine.items()}
    wider = isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray) and (mine.dtype, theirs.dtype) == (
        np.float64, np.int64
    )  # fmt: skip
    return mine.astype(theirs.dtype) if wider else mine


@pytest.mark.parametrize("mode", **BY_NAME)
@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_serial_and_threads_yield_its_trajectories(world, mode):
    """Observations, rewards, both flags and infos, in every autoreset mode."""
    assert_same_as_sync(world, mode, steps=STEPS if world == "CartPole-v1" else 120, backend="serial")
    assert_same_as_sync(world, mode, steps=40, backend="thread", workers=2)


@pytest.mark.parametrize("mode", **BY_NAME)
def test_processes_yield_its_trajectories(mode):
    """The same from worker processes."""
    assert_same_as_sync("CartPole-v1", mode, backend="process", workers=2, start_method="fork")


@pytest.mark.slow
@pytest.mark.parametrize("mode", **BY_NAME)
@pytest.mark.parametrize("world", WORLDS[1:], ids=str)
def test_long_trajectories_of_other_worlds(world, mode):
    """Tuples of observations, and infos of every kind, also through shared memory and pipes."""
    for backend in ("serial", "thread", "process"):
        assert_same_as_sync(world, mode, backend=backend, workers=2, start_method="fork")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED], ids=str)
def test_an_env_may_reuse_its_buffers(mode):
    """Not in SAME_STEP mode: there SyncVectorEnv loses the last observation of an env that reuses its buffer."""
    assert_same_as_sync(Counter, mode, steps=20, backend="serial")


def test_spawned_processes_yield_its_trajectories():
    """A worker that inherits nothing gives the same numbers."""
    assert_same_as_sync("CartPole-v1", AutoresetMode.SAME_STEP, backend="process", workers=1, start_method="spawn")


@pytest.mark.parametrize("mode", **BY_NAME)
@pytest.mark.parametrize("world", KERNEL_WORLDS, ids=str)
def test_the_kernel_backend_yields_the_trajectories_of_single_kernel_envs(world, mode):
    """Compiled for a batch, or one `KernelEnv` after another in Gymnasium's own loop: the same numbers and infos."""
    assert_same_as_sync(world, mode, steps=200, backend="kernel", workers=1)


class OddInfos(gym.Env):
    """Infos of every kind, keys that come and go, and a last info that is empty or not."""

    observation_space, action_space = gym.spaces.Discrete(100), gym.spaces.Discrete(2)

    def __init__(self, length, last_is_empty):
        self.length, self.last_is_empty = length, last_is_empty

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {"begun": "now"} if self.length % 2 else {}

    def step(self, action):
        self.t += 1
        ended = self.t == self.length
        return self.t, 1.0, ended, False, {} if ended and self.last_is_empty else self._info()

    def _info(self):
        t = self.t
        info = {"none": None, "text": "x" * t, "tuple": (1, t), "list": [t], "space": self.action_space, "complex": 1j}
        info |= {"f16": np.float16(t), "i8": np.int8(t), "u64": np.uint64(2**63 + t), "scalar": np.array(t)}
        info |= {"array": np.arange(3) + t, "objects": np.array([None, t], dtype=object), "empty": {}}
        info["deep"] = {"er": {"still": t, "array": np.ones(2) * t}, "none": None}
        return info | {"at_two": t, "deep": {"two": 1.5}} if t == 2 else info


@pytest.mark.parametrize("backend", ["serial", "process"])
@pytest.mark.parametrize("last_is_empty", [True, False], ids=["empty", "full"])
@pytest.mark.parametrize("mode", **BY_NAME)
def test_infos_of_every_kind(backend, last_is_empty, mode):
    """By key, mask, value, type and shape; `final_info` is there, with its mask, also where an env's last is empty."""
    makers = [lambda n=n: OddInfos(n, last_is_empty) for n in (3, 4, 5)]
    mine = rookery.make_vec(makers, backend=backend, workers=1, start_method="fork", autoreset_mode=mode)
    theirs = SyncVectorEnv(makers, autoreset_mode=mode)
    for one, other in zip(play(mine, mode, steps=9), play(theirs, mode, steps=9), strict=True):
        assert same(one, other) and data_equivalence(one[-1], other[-1])
    mine.close()


@pytest.mark.parametrize("seed", [0, np.int64(123), np.uint8(250)], ids=repr)
def test_env_i_gets_seed_plus_i(make_any, cartpole, seed):
    """Each env starts as a lone Gymnasium env does when reset with its seed; NumPy's integers do not overflow."""
    observations, _ = make_any(cartpole, 10).reset(seed=seed)
    lone = gym.make(cartpole)
    for i in range(10):
        assert np.array_equal(lone.reset(seed=int(seed) + i)[0], observations[i])


def test_a_masked_reset_gives_env_i_seed_plus_i(make_any, cartpole):
    """The number of an env decides, not its place among those that are reset."""
    envs = make_any(cartpole, 4)
    before, _ = envs.reset(seed=1)
    after, _ = envs.reset(seed=50, options={"reset_mask": np.array([False, True, False, True])})
    expected, _ = envs.reset(seed=50)
    assert np.array_equal(after[[1, 3]], expected[[1, 3]])
    assert np.array_equal(after[[0, 2]], before[[0, 2]])


def test_a_list_gives_each_env_its_own_seed(make_any, cartpole):
    """Unchanged; training passes children of its seed this way, so that runs with close seeds share no env."""
    envs = make_any(cartpole, 3)
    seeds = ChildSeeds.of(123, envs)
    assert seeds == [child_seed(123, i) for i in range(3)]
    assert [int(np.random.SeedSequence(123).spawn(3)[i].generate_state(1)[0] >> 1) for i in range(3)] == seeds
    observations, _ = envs.reset(seed=seeds)
    lone = gym.make(cartpole)
    for seed, observation in zip(seeds, observations, strict=True):
        assert np.array_equal(lone.reset(seed=seed)[0], observation)


@pytest.mark.parametrize("given", [None, {}, {"level": 3}], ids=str)
def test_envs_receive_the_options_that_were_given(make, given):
    """Without options an env receives None; `reset_mask` is the vector env's own, and the caller's dict stays."""
    envs = make(OptionEcho, 2)
    assert envs.reset(options=given)[1]["options"].tolist() == [given, given]
    options = {**(given or {}), "reset_mask": np.array([True, False])}
    assert envs.reset(options=options)[1]["options"].tolist() == [given or None, None]
    assert "reset_mask" in options


class OptionEcho(Informer):
    """Says which options its reset received."""

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, {"options": Wrapped(options)}


class Wrapped:
    """A dict in an info that is not merged with those of other envs."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other

    __hash__ = None


@pytest.mark.parametrize("given", ["float64", "float32", "int64", "list"])
def test_actions_reach_an_env_as_they_were_given(make, given):
    """SyncVectorEnv does not cast float64 actions to a float32 space, which would change the last bits of a result."""
    theirs, mine = sync("Pendulum-v1", 3, AutoresetMode.NEXT_STEP), make("Pendulum-v1", 3)
    assert same(mine.reset(seed=2), theirs.reset(seed=2))
    drawn = np.random.default_rng(5).uniform(-2, 2, (40, 3, 1))
    for t, actions in enumerate(drawn):
        actions = actions.tolist() if given == "list" else actions.astype(given)
        assert same(mine.step(actions), theirs.step(actions)), t


def test_actions_of_both_widths_in_one_engine(make):
    """Each send has its own: a step with float32 actions after one with float64, and parts of a space that differ."""
    envs = make(Mixed, 4, groups=2)
    envs.reset(seed=1)
    first, second = envs.groups
    wide, narrow = np.array([0.1, 0.2]), np.array([0.1, 0.2], np.float32)
    first.send({"a": wide, "b": narrow})
    second.send({"a": narrow, "b": narrow})
    assert first.recv()[4]["types"].tolist() == ["float64 float32"] * 2
    assert second.recv()[4]["types"].tolist() == ["float32 float32"] * 2
    *_, infos = first.step({"a": narrow, "b": wide})
    assert infos["types"].tolist() == ["float32 float64"] * 2
    assert infos["sum"].tolist() == [float(np.float32(x)) + x for x in (0.1, 0.2)]


class Mixed(gym.Env):
    """Says which types its actions have."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Dict({name: gym.spaces.Box(-1, 1, (), np.float32) for name in "ab"})

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        types = " ".join(value.dtype.name for value in action.values())
        return (
            np.zeros(1, np.float32),
            0.0,
            False,
            False,
            {"types": types, "sum": float(action["a"]) + float(action["b"])},
        )


@pytest.mark.parametrize("world", ["FrozenLake-v1", "Blackjack-v1"])
def test_last_observations_are_of_the_type_that_the_env_returned(make, world):
    """A Python number is not a NumPy scalar, and the other way round."""
    mode = AutoresetMode.SAME_STEP
    mine, theirs, seen = make(world, 3, autoreset_mode=mode), sync(world, 3, mode), 0
    for one, other in zip(play(mine, mode, steps=30), play(theirs, mode, steps=30), strict=True):
        if "final_obs" in other[-1]:
            assert repr(one[-1]["final_obs"]) == repr(other[-1]["final_obs"])
            seen += 1
    assert seen > 3
