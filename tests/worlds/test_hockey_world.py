"""Hockey as Gymnasium, the engine and learners meet it."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rookery
from conformance.compare import record, same
from rookery.errors import OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.hockey.rules import discrete_action
from rookery.worlds.hockey.world import Hockey, HockeyOneDiscrete, Mode, hockey

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import hockey_outcomes as outcomes

ONE = "rookery/HockeyOne-v0"
TWO = "rookery/Hockey-v0"


@pytest.mark.parametrize("name", [ONE, TWO])
@pytest.mark.filterwarnings("ignore:.*Box observation space.*infinity")
def test_gymnasium_accepts_it(name):
    """gymnasium.make builds it and check_env finds nothing wrong, rendering included."""
    env = gym.make(name, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=1)
    assert env.render().shape == (480, 600, 3)
    assert env.action_space.shape == ((4,) if name == ONE else (8,))
    assert env.observation_space.shape == (18,)
    env.close()


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_every_backend_plays_the_same_game(backend):
    """Observations, rewards, ends and all info columns, to the last bit."""
    options = {"env_kwargs": {"opponent": "strong", "mode": "shooting"}, "autoreset_mode": "same_step"}
    compiled = record(rookery.make_vec(ONE, 3, backend="kernel", **options), 120)
    envs = rookery.make_vec(ONE, 3, backend=backend, workers=1 if backend == "serial" else 2, **options)
    assert same(compiled, record(envs, 120))
    envs.close()


@pytest.mark.slow
def test_plain_python_and_compiled_code_agree_step_by_step():
    """500 steps with random actions, each from the same state: equal to the last bit."""
    compiled, plain = KernelEnv(Hockey), KernelEnv(Hockey, plain=True)
    compiled.reset(seed=2), plain.reset(seed=2)
    rng = np.random.default_rng(1)
    for _ in range(500):
        plain.set_state(compiled.get_state())
        action = rng.uniform(-1, 1, 8).astype(np.float32)
        one, other = compiled.step(action), plain.step(action)
        assert same(one, other)
        if one[2] or one[3]:
            compiled.reset()


@pytest.mark.parametrize("threads", [1, 2])
def test_batch_size_and_threads_change_nothing(threads):
    """Env i plays the same game among 1, 7 and 64, on one thread and on two."""
    actions = np.random.default_rng(0).uniform(-1, 1, (120, 64, 4)).astype(np.float32)
    expected = None
    for n in (64, 7, 1):
        envs = rookery.make_vec(ONE, n, backend="kernel", workers=min(threads, n), env_kwargs={"opponent": "strong"})
        envs.reset(seed=5)
        steps = [envs.step(batch[:n])[:4] for batch in actions]
        envs.close()
        expected = expected or steps
        for mine, first in zip(steps, expected, strict=True):
            assert all(np.array_equal(a, b[:n]) for a, b in zip(mine, first, strict=True))


@pytest.mark.slow  # it has to be compiled for this alone; test_parallel.py has the same in plain Python
def test_each_player_has_a_row():
    """Two rows an env: each sees the other's game turned by half a turn, and one's goal is the other's loss."""
    joint = rookery.make_vec(TWO, 2, backend="kernel")
    rows = rookery.make_vec(TWO, 2, backend="kernel", env_kwargs={"rows": 2})
    assert (rows.num_envs, rows.num_worlds, rows.single_action_space.shape) == (4, 2, (4,))
    start, infos = joint.reset(seed=1)
    both, _ = rows.reset(seed=1)
    assert np.array_equal(both[0::2], start)
    assert np.array_equal(both[1::2], infos["obs_agent_two"])
    rng = np.random.default_rng(3)
    for _ in range(300):
        actions = rng.uniform(-1, 1, (2, 8)).astype(np.float32)
        one, two = joint.step(actions), rows.step(actions.reshape(4, 4))
        assert np.array_equal(one[0], two[0][0::2])
        assert np.array_equal(one[1], two[1][0::2])
        assert np.array_equal(one[4]["obs_agent_two"], two[0][1::2])
        if "winner" in two[4]:  # not in a step that only resets
            assert np.array_equal(two[4]["winner"][0::2], -two[4]["winner"][1::2])
        assert np.array_equal(two[0][0::2, [12, 13, 14, 15]], -two[0][1::2, [12, 13, 14, 15]])


def test_opponents_differ_from_env_to_env():
    """Each env has its own opponent, and it can be changed while playing."""
    envs = rookery.make_vec(ONE, 3, backend="kernel", env_kwargs={"opponent": "weak"})
    envs.reset(seed=[9, 9, 9])
    envs.set_parameters(opponent=["weak", "strong", "none"])
    for _ in range(10):
        observations = envs.step(np.zeros((3, 4), np.float32))[0]
    speeds = np.abs(observations[:, 9:11]).max(axis=1)
    assert speeds[1] > speeds[0] > speeds[2] == 0.0
    assert envs.parameters["player_two"].tolist() == [1, 2, 0]
    assert envs.get_attr("opponent") == (1, 2, 0)


@pytest.mark.parametrize(("mode", "limit"), [("normal", 250), (Mode.TRAIN_SHOOTING, 80), ("train_defense", 80)])
def test_a_mode_brings_its_time_limit(mode, limit):
    """A game without a goal is truncated after 250 steps, 80 in the training modes; never terminated."""
    envs = rookery.make_vec(TWO, 1, backend="kernel", env_kwargs={"mode": mode})
    assert envs.parameters["time_limit"].tolist() == [limit]
    for seed in range(20):
        envs.reset(seed=seed)
        for steps in range(1, limit + 1):  # noqa: B007
            _, _, terminated, truncated, infos = envs.step(np.zeros((1, 8), np.float32))
            if terminated or truncated:
                break
        assert truncated[0] == (steps == limit)
        assert terminated[0] == (infos["winner"][0] != 0)


def test_a_puck_is_let_go_when_keep_mode_ends():
    """Else it would count as caught, in this step and all that follow."""
    env = KernelEnv(Hockey, plain=True)
    env.reset(seed=1)
    env.state.hold[0] = 15
    env.set_parameters(keep_mode=False)
    observation, _, _, _, info = env.step(np.zeros(8, np.float32))
    assert observation[16] == 0 and info["reward_touch_puck"] == 0


def test_the_opponent_can_be_named_as_player_two():
    """One against a script: the same by either name, and weak unless told."""
    for given, player in (({}, 1), ({"opponent": "strong"}, 2), ({"player_two": "strong"}, 2)):
        assert gym.make(ONE, plain=True, **given).unwrapped.parameters["player_two"] == player


def test_the_starting_side_alternates_unless_told():
    """The puck lies in the half of who starts; `one_starts` decides for good."""
    env = KernelEnv(Hockey)
    sides = [np.sign(env.reset(seed=4 if k == 0 else None)[0][12]) for k in range(6)]
    assert sides[0::2] == [sides[0]] * 3 and sides[1::2] == [-sides[0]] * 3
    first, second = ([np.sign(env.reset(options={"one_starts": who})[0][12]) for _ in range(3)] for who in (1, 0))
    assert (first, second) == ([-1.0] * 3, [1.0] * 3)


@pytest.mark.parametrize("fineness", [2, 4])
def test_discrete_actions_stand_for_continuous_ones(fineness):
    """Each number does what the action behind it does; there are 1 + 6 (f - 1) + 1."""
    discrete = KernelEnv(HockeyOneDiscrete, plain=True, action_fineness=fineness, player_two=0)
    continuous = KernelEnv(Hockey, plain=True)
    assert discrete.action_space.n == 1 + 6 * (fineness - 1) + 1
    for index in range(discrete.action_space.n):
        discrete.reset(seed=3), continuous.reset(seed=3)
        action = np.array([*discrete_action(index, fineness), 0, 0, 0, 0])
        assert np.allclose(discrete.step(index)[0], continuous.step(action)[0], atol=1e-5)


def test_pairings_end_as_in_the_original():
    """Shares of won, drawn and lost games within 5 points of the original's, for two of its pairings."""
    for _, mode, first, second, original in (outcomes.PAIRINGS[1], outcomes.PAIRINGS[6]):
        ours = outcomes.play(mode, first, second, games=2000, seed=77)
        assert np.abs(np.array(ours[:3]) - np.array(original[:3])).max() < 0.05
        assert abs(ours.length - original.length) < 8


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"mode": "chess"}, "mode should be one of 'normal'"),
        ({"player_two": "medium"}, "player_two should be one of"),
        ({"rows": 3}, "rows should be 1"),
        ({"keepmode": True}, "did you mean 'keep_mode'"),
        ({"discrete": True, "action_fineness": 1}, "action_fineness should be an integer >= 2"),
        ({"one_starts": 2}, r"one_starts should be 1, 0, or -1 \(alternating\), got 2"),
    ],
)
def test_what_is_misspelt_is_named(kwargs, words):
    """Options that do not exist never pass silently."""
    with pytest.raises(OptionError, match=words):
        hockey(**kwargs)
