"""Kernel worlds under the engine: the same numbers in every way of running them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import rookery
from conformance.compare import same
from kernel.samples import Poisoned, Steerer, Tug, Walker
from rookery.errors import BadValue, OptionError, SpaceError, StateError, UsageError, WorldError
from rookery.kernel.kernel_env import KernelEnv

pytestmark = pytest.mark.usefixtures("plain_python")

MODES = ["next_step", "same_step"]


def kernel(world, num_envs, **options):
    return rookery.make_vec(world, num_envs, backend="kernel", **options)


@pytest.mark.slow
@pytest.mark.parametrize("world", [Walker, Steerer, "rookery/CartPole-v1"], ids=str)
def test_batch_size_and_threads_change_nothing(world):
    """Env i does the same among 1, 7 and 64, on one thread and on two."""
    actions = np.array([gym.vector.utils.batch_space(_space(world), 64).sample() for _ in range(60)])
    reference = None
    for n in (64, 7, 1):
        for threads in (1, 2):
            envs = kernel(world, n, workers=min(threads, n))
            if threads == 2:
                _share_out(envs)
            envs.reset(seed=5)
            steps = [envs.step(batch[:n])[:4] for batch in actions]
            envs.close()
            reference = reference or steps
            for mine, first in zip(steps, reference, strict=True):
                assert all(np.array_equal(a, b[:n]) for a, b in zip(mine, first, strict=True))


def _space(world):
    return gym.make(world).action_space if isinstance(world, str) else world.action_space


def _share_out(envs):
    """Have two threads at work from the first round on, however short it is."""
    envs._thread_choice.use_threads()


def test_plain_python_is_never_divided_among_threads(monkeypatch):
    """Neither in `step` nor in `send` and `recv`, though its steps are long."""
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)
    together, apart = kernel(Walker, 16, workers=2), kernel(Walker, 16, workers=2)
    assert same(together.reset(seed=1)[0], apart.reset(seed=1)[0])
    for _ in range(50):
        actions = together.action_space.sample()
        apart.send(actions)
        assert same(together.step(actions)[:4], apart.recv()[:4])


def test_plain_python_gives_what_compiled_code_gives():
    """A world of doubles is followed to the last bit by its own source, run as it stands."""
    compiled, plain = KernelEnv(Walker), KernelEnv(Walker, plain=True)
    rng = np.random.default_rng(0)
    assert same(compiled.reset(seed=4), plain.reset(seed=4))
    for _ in range(60):
        action = int(rng.integers(3))
        one, other = compiled.step(action), plain.step(action)
        assert same(one, other)
        if one[2] or one[3]:
            assert same(compiled.reset(), plain.reset())


def test_disabled_mode_waits_for_reset_mask():
    """With autoreset off, an ended env must be reset by mask; the others are not disturbed."""
    envs = kernel(Walker, 3, autoreset_mode="disabled", env_kwargs={"time_limit": 2})
    envs.reset(seed=1)
    envs.step([1, 1, 1])
    assert envs.step([1, 1, 1])[3].all()
    with pytest.raises(UsageError, match="reset_mask"):
        envs.step([1, 1, 1])
    before = envs.arena.states.copy()
    _, infos = envs.reset(options={"reset_mask": np.array([True, True, False])})
    assert "distance" not in infos  # what the third env said in its last step is not said again
    assert envs.arena.states[2] == before[2]
    assert envs.arena.states["steps"].tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("harm", "error", "words"),
    [
        (1, BadValue, r"env 1, step 3 of its episode: observation\[1\] is nan"),
        (2, SpaceError, r"env 1, step 3 of its episode: observation\[2\] is 101.0, outside"),
        (3, BadValue, r"env 1, step 3 of its episode: reward is inf"),
    ],
)
def test_bad_values_are_named_at_their_step(harm, error, words):
    """NaN, infinity and values outside the space raise at the step that makes them, with env and place."""
    envs = kernel(Poisoned, 3)
    envs.reset(seed=1)
    envs.set_parameters(envs=[1], harm=harm)
    envs.step([1, 1, 1])
    envs.step([1, 1, 1])
    with pytest.raises(error, match=words):
        envs.step([1, 1, 1])


@pytest.mark.parametrize("mode", MODES)
def test_a_bad_env_is_restarted_if_that_is_asked_for(mode):
    """bad_values="restart": the env comes back truncated and announced; its neighbours do not notice."""
    envs, undisturbed = (kernel(Poisoned, 3, bad_values="restart", autoreset_mode=mode) for _ in range(2))
    envs.reset(seed=1), undisturbed.reset(seed=1)
    envs.set_parameters(envs=[1], harm=1)
    for _ in range(3):
        got, expected = envs.step([1, 1, 1]), undisturbed.step([1, 1, 1])
    assert got[3].tolist() == [False, True, False]
    assert got[4]["restarted"].tolist() == [False, True, False]
    assert np.isfinite(got[0]).all()
    assert np.array_equal(got[0][[0, 2]], expected[0][[0, 2]])
    assert envs.restarts == 1
    for _ in range(2):
        assert np.isfinite(envs.step([1, 1, 1])[0]).all()


def test_a_restarted_env_has_no_infos_of_an_earlier_episode():
    """What is left of an episode that failed is that it failed; it is not listed either."""
    envs = kernel(Poisoned, 2, bad_values="restart", autoreset_mode="same_step", env_kwargs={"time_limit": 4})
    envs.reset(seed=1)
    for _ in range(4):
        *_, infos = envs.step([1, 1])
    assert infos["_final_info"].all() and infos["final_info"]["_distance"].all()
    envs.set_parameters(envs=[1], harm=1)
    for _ in range(4):
        *_, infos = envs.step([1, 1])
        if "restarted" in infos:
            assert infos["final_info"]["restarted"].tolist() == infos["_final_obs"].tolist() == [False, True]
            assert not infos["_final_info"].any() and "distance" not in infos["final_info"]
    assert envs.restarts == 1
    assert envs.finished_episodes()["env"].tolist() == [0, 1, 0]


def test_allowed_bad_values_pass():
    """bad_values="allow" looks at nothing."""
    envs = kernel(Poisoned, 2, bad_values="allow", env_kwargs={"harm": 1})
    envs.reset(seed=1)
    for _ in range(3):
        observations = envs.step([1, 1])[0]
    assert np.isnan(observations[:, 1]).all()


@pytest.mark.parametrize(
    ("world", "actions", "words"),
    [
        (Walker, [1, 7, 1], r"env 1: action 7 is not in Discrete\(3\)"),
        (Walker, [1, -1, 1], r"env 1: action -1 is not in"),
        (Steerer, [[0, 0], [0, 0], [0, 1.5]], r"env 2: action \[0.0, 1.5\] is not in Box"),
        (Steerer, [[0, 0], [np.nan, 0], [0, 0]], r"env 1: action \[nan, 0.0\] is not in Box"),
    ],
)
def test_an_action_out_of_range_moves_nothing(world, actions, words):
    """The env and the action are named, and every env stands where it stood, so the caller may try again."""
    envs = kernel(world, 3)
    envs.reset(seed=1)
    before = envs.arena.states.copy()
    with pytest.raises(SpaceError, match=words):
        envs.step(np.array(actions, envs.single_action_space.dtype))
    assert np.array_equal(envs.arena.states, before)
    envs.step(np.zeros_like(np.array(actions, envs.single_action_space.dtype)))


def test_episodes_are_counted_in_the_loop():
    """Return, length and seconds of every finished episode, oldest first."""
    envs = kernel(Walker, 2, env_kwargs={"time_limit": 3, "limit": 1e9})
    envs.reset(seed=1)
    total = np.zeros(2)
    for _ in range(3):
        total += envs.step([1, 1])[1]
    for _ in range(4):
        envs.step([1, 1])
    episodes = envs.finished_episodes()
    assert episodes["env"].tolist() == [0, 1, 0, 1]
    assert episodes["length"].tolist() == [3, 3, 3, 3]
    assert np.allclose(episodes["return"][:2], total)
    assert (episodes["seconds"] > 0).all()
    assert len(envs.finished_episodes()) == 0


def test_the_state_goes_out_and_in():
    """An engine that loads a state does what the other one does; a state of another world is rejected."""
    envs, other = kernel(Walker, 5, env_kwargs={"limit": 3.0}), kernel(Walker, 5, env_kwargs={"limit": 3.0})
    envs.reset(seed=3), other.reset(seed=8)
    envs.set_parameters(envs=[2], stride=0.5)
    rng = np.random.default_rng(0)
    for _ in range(9):
        envs.step(rng.integers(0, 3, 5))
    other.load_state_dict(envs.state_dict())
    for _ in range(30):
        actions = rng.integers(0, 3, 5)
        assert same(envs.step(actions), other.step(actions))
    with pytest.raises(StateError, match="world='Walker'"):
        kernel("rookery/CartPole-v1", 5).load_state_dict(envs.state_dict())


def test_a_state_with_other_parameters_is_refused():
    """Two that changed places would be taken for one another."""
    envs = kernel(Walker, 2)
    envs.reset(seed=1)
    state = envs.state_dict()
    envs.load_state_dict(state)
    with pytest.raises(StateError, match="the parameters of Walker have changed"):
        envs.load_state_dict({**state, "parameters": state["parameters"].replace("stride", "pace")})


def test_groups_and_batches_work_as_elsewhere():
    """send and recv, in groups and env by env, give the numbers of lock-step."""
    actions = np.random.default_rng(0).integers(0, 3, (20, 6))
    whole, parts, single = kernel(Walker, 6), kernel(Walker, 6, groups=2), kernel(Walker, 6, batch_size=2)
    for envs in (whole, parts, single):
        envs.reset(seed=4)
    first, second = parts.groups
    for t in range(20):
        expected = whole.step(actions[t])
        first.send(actions[t][:3]), second.send(actions[t][3:])
        for part, group in ((slice(0, 3), first), (slice(3, 6), second)):
            got = group.recv()
            assert all(np.array_equal(e[part], g) for e, g in zip(expected[:4], got[:4], strict=True))
            assert np.array_equal(expected[4]["action_mask"][part], got[4]["action_mask"])
        single.send(actions[t], range(6))
        for _ in range(3):
            observations, rewards, _, _, infos = single.recv()
            assert np.array_equal(expected[0][infos["env_id"]], observations)
            assert np.array_equal(expected[1][infos["env_id"]], rewards)


@pytest.mark.slow
def test_every_agent_is_a_row():
    """Two agents a world: rows of their own, rewards and infos of their own, one seed a world."""
    envs = kernel(Tug, 3, autoreset_mode="same_step")
    assert (envs.num_envs, envs.num_worlds) == (6, 3)
    observations, _ = envs.reset(seed=2)
    assert np.array_equal(observations[0::2, 0], -observations[1::2, 0])
    alone = kernel(Tug, 1)
    assert np.array_equal(alone.reset(seed=2)[0], observations[:2])
    actions = np.array([[1], [0.25], [0], [0], [-1], [1]], np.float32)
    _, rewards, _, _, infos = envs.step(actions)
    assert rewards.tolist() == [0.75, -0.75, 0, 0, -2, 2]
    assert infos["pull"].tolist() == actions[:, 0].tolist()
    observations, rewards, terminated, _, infos = [envs.step(actions) for _ in range(2)][-1]
    assert terminated.tolist() == [False] * 4 + [True] * 2
    assert abs(infos["final_obs"][4][0]) > 4 > abs(observations[4, 0])
    with pytest.raises(OptionError, match="all rows of a world"):
        envs.reset(options={"reset_mask": np.array([True] + [False] * 5)})
    with pytest.raises(WorldError, match="2 agents"):
        KernelEnv(Tug)


def test_parameters_of_all_and_of_some():
    """One value for all, one per env, by name through set_attr, and by options at a reset."""
    envs = kernel(Walker, 3)
    envs.set_parameters(stride=2.0)
    assert envs.parameters["stride"].tolist() == [2.0, 2.0, 2.0]
    envs.set_parameters(stride=[1.0, 2.0, 3.0])
    envs.set_attr("limit", [7.0, 8.0, 9.0])
    assert envs.get_attr("limit") == (7.0, 8.0, 9.0)
    envs.reset(seed=1, options={"stride": 0.0})
    assert envs.parameters["stride"].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(OptionError, match="no parameter 'strid'; did you mean 'stride'"):
        envs.set_parameters(strid=1)
    with pytest.raises(OptionError, match="one for each of 3 envs"):
        envs.set_parameters(stride=[1.0])


def test_auto_takes_the_kernel_backend_for_kernel_worlds(caplog):
    """A kernel world is compiled without being asked; Gymnasium's stays, with a hint at its compiled version."""
    assert rookery.make_vec(Walker, 4).backend == "kernel"
    from rookery.engine import make_vec

    make_vec._hint_at_compiled.cache_clear()  # as in a fresh process: it is given once
    with caplog.at_level("INFO"):
        envs = rookery.make_vec("CartPole-v1", 2, workers=1)
    assert envs.backend != "kernel"
    assert "rookery/CartPole-v1" in caplog.text
    envs.close()
    with pytest.raises(OptionError, match="needs a kernel world"):
        kernel("CartPole-v1", 2)


def test_what_a_reset_shows_is_checked_too():
    """NaN in a first observation is named, by the batch, by a lone env, and after an autoreset."""
    envs = kernel(Poisoned, 3)
    envs.reset(seed=1)
    envs.set_parameters(envs=[1], harm=4)
    with pytest.raises(BadValue, match=r"env 1, step 0 of its episode: observation\[0\] is nan"):
        envs.reset(seed=2)
    with pytest.raises(BadValue, match=r"observation\[0\] is nan"):
        KernelEnv(Poisoned, harm=4).reset(seed=1)
    again = kernel(Poisoned, 2, env_kwargs={"time_limit": 1}, autoreset_mode="same_step")
    again.reset(seed=1)
    again.set_parameters(harm=4)
    with pytest.raises(BadValue, match="env 0, step 0"):
        again.step([1, 1])


def test_envs_are_named_by_number_or_mask():
    """Parameters reach the envs that are meant, and what get_attr shows follows."""
    envs = kernel(Walker, 4)
    assert envs.get_attr("stride") == (1.0,) * 4
    envs.set_parameters(envs=np.array([True, False, False, False]), stride=7.0)
    envs.set_parameters(envs=2, stride=3.0)
    envs.set_parameters(envs=[], stride=9.0)
    assert envs.get_attr("stride") == (7.0, 1.0, 3.0, 1.0)
    for wrong in ([1, 1], [4], "all", [[0]]):
        with pytest.raises(OptionError, match="envs should be"):
            envs.set_parameters(envs=wrong, stride=1.0)


def test_a_state_from_before_parameters_differed_can_be_loaded():
    """One record for all envs spreads to each."""
    envs = kernel(Walker, 3)
    envs.reset(seed=1)
    saved = envs.state_dict()
    envs.set_parameters(envs=[0], stride=2.0)
    envs.load_state_dict(saved)
    assert envs.parameters["stride"].tolist() == [1.0, 1.0, 1.0]


def test_what_get_attr_shows_follows_a_loaded_state():
    """Envs that were looked at while they shared their parameters show their own once a state gives them some."""
    envs, other = kernel(Walker, 3), kernel(Walker, 3)
    envs.reset(seed=1), other.reset(seed=1)
    other.set_parameters(stride=[1.0, 2.0, 3.0])
    assert envs.get_attr("stride") == (1.0, 1.0, 1.0)
    envs.load_state_dict(other.state_dict())
    assert envs.get_attr("stride") == (1.0, 2.0, 3.0)
    actions = [2, 0, 2]
    assert np.array_equal(envs.step(actions)[0], other.step(actions)[0])


@pytest.mark.usefixtures("plain_python")
def test_a_state_with_other_fields_is_refused():
    """Fields in another order would be loaded into each other's places."""

    class Turned(Walker):
        state = dict(reversed(Walker.state.items()))

    Turned.__name__ = "Walker"
    envs = kernel(Walker, 2)
    envs.reset(seed=1)
    with pytest.raises(StateError, match="fields of Walker's state have changed"):
        kernel(Turned, 2).load_state_dict(envs.state_dict())


def test_resize_counts_worlds():
    """With several agents, as make_vec does."""
    envs = kernel(Tug, 5)
    envs.resize(3)
    assert (envs.num_envs, envs.num_worlds) == (6, 3)
    envs.reset(seed=1)
    assert envs.step(np.zeros((6, 1), np.float32))[0].shape == (6, 2)


@pytest.mark.parametrize(
    ("world", "action"),
    [(Walker, 1.9), (Walker, "1"), (Walker, [1]), (Walker, 2**70), (Steerer, 0.5), (Steerer, [0.5])],
)
def test_a_lone_env_takes_no_action_for_another(world, action):
    """Nothing is rounded, read from text, stretched or wrapped."""
    env = KernelEnv(world)
    env.reset(seed=1)
    with pytest.raises(SpaceError, match="is not in"):
        env.step(action)


def test_a_registered_limit_and_wrappers_are_kept():
    """An id's own time limit holds on every backend; one with wrappers is not run without them."""
    kwargs = {"world": "kernel.samples:Walker", "limit": 1e9}
    gym.register("WalkerFour-v0", entry_point="rookery.kernel.kernel_env:KernelEnv", kwargs=kwargs, max_episode_steps=4)
    envs = rookery.make_vec("WalkerFour-v0", 2)
    assert envs.backend == "kernel"
    envs.reset(seed=1)
    assert [bool(envs.step([1, 1])[3].all()) for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize("groups", [1, 2])
def test_stats_count_the_steps(groups):
    """Of all envs, whole rounds and parts of them; resets are none, and a resize forgets none."""
    envs = kernel(Walker, 4, groups=groups)
    envs.reset(seed=1)
    actions = np.zeros(4, np.int64)
    for _ in range(10):
        if groups == 1:
            envs.step(actions)
        else:
            for group in envs.groups:
                group.send(actions[:2])
            for group in envs.groups:
                group.recv()
    assert [row["steps"] for row in envs.stats()] == [40]
    envs.reset(seed=2)
    if groups == 1:
        envs.resize(6)
        envs.reset(options={"reset_mask": np.arange(6) >= 4})
        envs.step(np.zeros(6, np.int64))
        assert [row["steps"] for row in envs.stats()] == [46]
    envs.close()
