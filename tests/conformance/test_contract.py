"""The rest of the contract, on every backend."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

import rookery
from conformance.compare import record, same
from conformance.worlds import Counter, Informer, WithState
from rookery.errors import OptionError, SpaceError, StateError, UsageError


def test_it_is_a_vector_env(make_any, counter):
    """Spaces and metadata are where Gymnasium's wrappers look for them."""
    envs = make_any(counter, 3)
    assert isinstance(envs, VectorEnv)
    assert envs.num_envs == 3
    assert envs.single_action_space == Counter.action_space
    assert envs.action_space == gym.spaces.MultiDiscrete([2, 2, 2])
    assert envs.observation_space.shape == (3, 2)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_no_info_means_an_empty_dict(make_any, cartpole):
    """An env that says nothing costs nothing."""
    envs = make_any(cartpole, 2)
    assert envs.reset(seed=1)[1] == {}
    assert envs.step([0, 1])[4] == {}


def test_reset_options_reach_the_envs_and_reset_infos_come_back(make):
    """Options are handed on; the caller's dict stays as it was."""
    options = {"level": 7}
    _, infos = make(Informer, 2).reset(seed=1, options=options)
    assert infos["option"].tolist() == [7, 7]
    assert infos["_begun"].all()
    assert options == {"level": 7}


@pytest.mark.parametrize("seed", [-1, 1.5, "1", [1, 2], [1, -2, 3], [1, 2.5, 3]], ids=str)
def test_seeds_that_are_none_are_refused(make_any, cartpole, seed):
    """The error says what a seed is."""
    envs = make_any(cartpole, 3)
    with pytest.raises(OptionError, match=r"^seed.* should "):
        envs.reset(seed=seed)
    envs.reset(seed=np.array([1, 2, 3]))


def test_final_observation_and_info_survive_a_reused_buffer(make_any, counter):
    """What an episode ended with is taken before the reset, although the env writes into the same arrays again."""
    envs = make_any(counter, 2, autoreset_mode="same_step", env_kwargs={"length": 3})
    envs.reset(seed=1)
    for _ in range(3):
        observations, _, terminated, _, infos = envs.step([0, 0])
    assert terminated.all()
    assert observations[:, 0].tolist() == [0.0, 0.0]
    assert [o[0] for o in infos["final_obs"]] == [3.0, 3.0]
    assert infos["final_info"]["steps"].ravel().tolist() == [3, 3]


def test_returned_arrays_are_the_callers(make_any, counter):
    """With copy=True nothing that was returned changes later; with copy=False observations are views."""
    envs = make_any(counter, 2)
    first, _ = envs.reset(seed=1)
    before = first.copy()
    kept = envs.step([1, 1])
    copies = [part.copy() for part in kept[:4]]
    envs.step([0, 0])
    assert np.array_equal(first, before)
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=False))
    views = make_any(counter, 2, copy=False)
    seen, _ = views.reset(seed=1)
    views.step([0, 0])
    assert seen[:, 0].tolist() == [1.0, 1.0]


def test_call_and_render(make):
    """Methods and frames of the envs are within reach."""
    envs = make(Counter, 3)
    envs.reset(seed=1)
    assert envs.call("double", 4, plus=1) == (9, 9, 9)
    envs.step([0, 0, 0])
    assert envs.render_mode == "rgb_array"
    assert [frame[0, 0, 0] for frame in envs.render()] == [1, 1, 1]


def test_get_attr_and_set_attr(make_any, counter):
    """What the envs have is seen and changed."""
    envs = make_any(counter, 3)
    envs.reset(seed=1)
    envs.set_attr("scale", [1.0, 2.0, 3.0])
    assert envs.get_attr("scale") == (1.0, 2.0, 3.0)
    assert envs.step([0, 0, 0])[0][:, 0].tolist() == [1.0, 2.0, 3.0]
    envs.set_attr("scale", 5.0)
    assert envs.get_attr("scale") == (5.0, 5.0, 5.0)
    with pytest.raises(AttributeError, match="nothing_here"):
        envs.get_attr("nothing_here")
    with pytest.raises(OptionError, match="one value for each"):
        envs.set_attr("scale", [1.0])


def test_episode_statistics(make_any, counter):
    """Return and length of every finished episode are counted in the engine, once."""
    envs = make_any(counter, 2, env_kwargs={"length": 3})
    envs.reset(seed=1)
    for action in ([1, 0], [1, 0], [1, 1], [0, 0], [0, 0], [0, 0], [0, 1]):
        envs.step(action)
    episodes = envs.finished_episodes()
    assert episodes["env"].tolist() == [0, 1, 0, 1]
    assert episodes["return"].tolist() == [3.0, 1.0, 0.0, 1.0]
    assert episodes["length"].tolist() == [3, 3, 3, 3]
    assert (episodes["seconds"] > 0).all()
    assert len(envs.finished_episodes()) == 0


@pytest.mark.parametrize(("before", "after"), [(4, 9), (9, 4), (3, 1), (1, 6)])
def test_resize_leaves_the_envs_that_stay_alone(make_any, cartpole, before, after):
    """Kept envs continue as if nothing had happened; new ones take part after a reset of their own."""
    envs = make_any(cartpole, before)
    undisturbed = rookery.make_vec(cartpole, before, backend="serial")
    envs.reset(seed=5), undisturbed.reset(seed=5)
    rng, kept = np.random.default_rng(0), min(before, after)
    for _ in range(4):
        actions = rng.integers(0, 2, before)
        envs.step(actions), undisturbed.step(actions)
    envs.resize(after)
    assert envs.num_envs == after
    assert envs.observation_space.shape == (after, 4)
    if after > before:
        observations, _ = envs.reset(seed=6, options={"reset_mask": np.arange(after) >= before})
        assert np.abs(observations[before:]).max() < 0.05
    for _ in range(25):
        actions = rng.integers(0, 2, max(before, after))
        mine, theirs = envs.step(actions[:after]), undisturbed.step(actions[:before])
        assert all(np.array_equal(a[:kept], b[:kept]) for a, b in zip(mine[:4], theirs[:4], strict=True))
    assert sum(row["envs"] for row in envs.stats()) == after


def test_a_resize_that_fails_ends_the_engine(make, tmp_path):
    """When a new env cannot be built every further call says so, and none waits or returns rows of no env."""
    full = tmp_path / "full"

    class Limited(Counter):
        def __init__(self):
            super().__init__()
            if full.exists():
                raise MemoryError("no room for another")

    envs = make(Limited, 2)
    envs.reset(seed=1)
    full.touch()
    with pytest.raises(MemoryError, match="no room for another"):
        envs.resize(4)
    for call in (lambda: envs.step([0, 0]), lambda: envs.step([0] * 4), envs.reset, envs.render, envs.state_dict):
        with pytest.raises(UsageError, match="this engine has failed: no room for another"):
            call()
    envs.close()


def check_continuation(envs, others):
    """A state saved in one engine and loaded into others gives the same numbers from there on."""
    envs.reset(seed=2)
    rng = np.random.default_rng(0)
    for _ in range(7):
        last, *_ = envs.step(rng.integers(0, 2, 3))
    state = envs.state_dict()
    actions = rng.integers(0, 2, (30, 3))
    expected = [envs.step(a) for a in actions]
    for other in others:
        assert np.array_equal(other.load_state_dict(state), last)
        assert same(expected, [other.step(a) for a in actions])
        other.close()


def test_state_continues_exactly(make_any, cartpole):
    """In another engine of the same kind."""
    check_continuation(make_any(cartpole, 3), [make_any(cartpole, 3)])


@pytest.mark.parametrize("world", ["CartPole-v1", WithState], ids=str)
def test_state_continues_exactly_on_any_backend(make, world):
    """Also in one of another kind."""
    check_continuation(make(world, 3), [rookery.make_vec(world, 3, backend="serial")])


class Unsaveable(Counter):
    """Neither picklable nor able to tell its state."""

    def __init__(self):
        super().__init__()
        self.unpicklable = (i for i in range(3))


def test_state_that_cannot_be_had_is_refused(make):
    """The error names the env and what it lacks."""
    envs = make(Unsaveable, 2)
    envs.reset(seed=1)
    with pytest.raises(StateError, match="Unsaveable has no get_state/set_state"):
        envs.state_dict()


def test_the_state_of_another_number_of_envs_is_refused(make_any, cartpole):
    """The error names both numbers."""
    saved = make_any(cartpole, 2)
    saved.reset(seed=1)
    with pytest.raises(StateError, match="num_envs=2, this engine has 3"):
        make_any(cartpole, 3).load_state_dict(saved.state_dict())


def test_stats_tell_of_every_worker(make_any, cartpole):
    """Steps, CPU time, memory and pid per worker."""
    envs = make_any(cartpole, 4)
    record(envs, 10)
    rows = envs.stats()
    assert sum(row["steps"] for row in rows) == 40
    assert all(row["memory"] > 1e6 and row["pid"] > 0 and row["cpu_seconds"] >= 0 for row in rows)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros(2, int), r"shape \(3,\).*got shape \(2,\)"),
        (np.zeros((3, 1), int), r"got shape \(3, 1\)"),
        (np.zeros(3), "dtype int64.*got float64"),
        ([[0], [1, 2], [3]], "got object"),
        (0, r"got shape \(\)"),
    ],
)
def test_wrong_actions_are_refused_before_any_env_sees_them(make_any, cartpole, actions, message):
    """The error names what was expected and what came, and the engine continues."""
    envs = make_any(cartpole, 3)
    envs.reset(seed=1)
    with pytest.raises(SpaceError, match=message):
        envs.step(actions)
    assert envs.step([0, 1, 0])[1].tolist() == [1.0, 1.0, 1.0]


def test_calls_out_of_turn_are_refused(make_any, cartpole):
    """recv without send, step while stepping, anything after close."""
    envs = make_any(cartpole, 2)
    envs.reset(seed=1)
    with pytest.raises(UsageError, match="send"):
        envs.recv()
    envs.send([0, 1])
    with pytest.raises(UsageError, match="being stepped"):
        envs.step([0, 1])
    with pytest.raises(UsageError, match="being stepped already"):
        envs.send([0, 1])
    envs.recv()
    envs.close()
    envs.close()
    for call in (lambda: envs.step([0, 1]), lambda: envs.reset(), lambda: envs.get_attr("t"), envs.stats):
        with pytest.raises(UsageError, match="closed"):
            call()


def test_envs_sent_together_must_be_whole(make_any, cartpole):
    """Without batch_size, envs that share a worker are stepped as one; the error says how to change that."""
    envs = make_any(cartpole, 4, workers=1)
    envs.reset(seed=1)
    with pytest.raises(UsageError, match="batch_size"):
        envs.send([0], env_ids=[2])
    with pytest.raises(OptionError, match="distinct numbers below 4"):
        envs.send([0, 0], env_ids=[1, 9])


@pytest.mark.parametrize("env_ids", [0, [0.5], [True, False], [[0]], "0", []], ids=str)
def test_env_ids_are_numbers_of_envs(make_any, cartpole, env_ids):
    """Masks, fractions and the like are rejected rather than read as numbers."""
    envs = make_any(cartpole, 2, batch_size=1)
    envs.reset(seed=1)
    with pytest.raises(OptionError, match="env_ids should be a list of env numbers, got"):
        envs.send([0], env_ids)
    envs.send([0, 1], np.array([1, 0], np.uint8))
    assert {envs.recv()[4]["env_id"].item() for _ in range(2)} == {0, 1}


def test_many_info_keys_and_changing_types(make):
    """More numeric keys than there are places in shared memory, and numbers that change type, still arrive."""

    class Chatty(Counter):
        def step(self, action):
            observation, reward, terminated, truncated, _ = super().step(action)
            info = {f"key{k}": k * self.t for k in range(40)} | {"mixed": self.t if self.t % 2 else self.t / 3}
            return observation, reward, terminated, truncated, info

    envs = make(Chatty, 2, env_kwargs={"length": 99})
    envs.reset(seed=1)
    for t in range(1, 6):
        infos = envs.step([0, 0])[4]
        assert all(infos[f"key{k}"].tolist() == [k * t, k * t] and infos[f"_key{k}"].all() for k in range(40))
        assert infos["mixed"].tolist() == pytest.approx([t if t % 2 else t / 3] * 2)


def test_infos_stay_those_of_their_step(make):
    """Later steps change nothing of them, nor does a key that first comes up in between; `env_id` is the engine's."""

    class Numbers(Counter):
        def step(self, action):
            t = self.t
            info = {"t": t, "half": t / 2, "odd": t % 2 == 1, "env_id": 77.0} | ({"late": t} if t > 4 else {})
            return *super().step(action)[:4], info

    envs = make(Numbers, 2, env_kwargs={"length": 99})
    envs.reset(seed=1)
    kept = []
    for _ in range(8):
        envs.send([0, 0])
        kept.append(envs.recv()[4])
    for t, infos in enumerate(kept):
        late = {"late", "_late"} if t > 4 else set()
        assert set(infos) == {"t", "_t", "half", "_half", "odd", "_odd", "env_id", "_env_id"} | late
        assert infos["env_id"].tolist() == [0, 1]
        assert [infos[key].tolist() for key in ("t", "half", "odd")] == [[t] * 2, [t / 2] * 2, [t % 2 == 1] * 2]
        assert infos.get("late", np.full(2, t)).tolist() == [t] * 2


def test_large_integers_in_infos_keep_every_digit(make):
    """Timestamps in nanoseconds are not rounded to what a float holds; larger ones still arrive."""

    class Clock(Counter):
        def step(self, action):
            return *super().step(action)[:4], {"ns": 2**60 + self.t, "huge": 2**70 + self.t}

    envs = make(Clock, 2, env_kwargs={"length": 99})
    envs.reset(seed=1)
    for t in range(1, 4):
        infos = envs.step([0, 0])[4]
        assert infos["ns"].tolist() == [2**60 + t] * 2
        assert infos["huge"].tolist() == [2**70 + t] * 2


def test_envs_may_disagree_about_what_an_info_is(make):
    """A dict from one env and a number from another under the same key both arrive."""

    class Odd(Counter):
        def step(self, action):
            return *super().step(action)[:4], {"a": {"b": 2} if action else 1}

    envs = make(Odd, 3, env_kwargs={"length": 99})
    envs.reset(seed=1)
    for actions in ([1, 0, 1], [0, 1, 0], [1, 1, 1]):
        infos = envs.step(actions)[4]
        got = infos["a"]["b"].tolist() if isinstance(infos["a"], dict) else infos["a"].tolist()
        assert got == ([2, 2, 2] if all(actions) else [{"b": 2} if a else 1 for a in actions])


def test_call_hands_on_any_keyword(make):
    """Also those that rookery's own signature uses."""

    class Named(Counter):
        def greet(self, name, rows=0):
            return f"{name}{rows}"

    assert make(Named, 2).call("greet", name="bob", rows=3) == ("bob3", "bob3")
