"""A world may return `truncated` itself: it is or-ed with the time limit, on every path."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rookery
from kernel.samples import Walker
from kernel.test_cuda_on_cpu import on_cpu
from rookery.errors import WorldError
from rookery.kernel.kernel_env import KernelEnv, find_world
from rookery.kernel.step_values import truncates
from rookery.kernel.world import KernelWorld


class Shift(KernelWorld):
    """Counts up; terminated at 10, truncated at the end of a shift of 7 or 4 steps."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(3)
    state = {"x": "i8"}
    parameters = {"shift": 7}
    hard_kinds = 1

    @staticmethod
    def reset(state):
        state.x = 0

    @staticmethod
    def step(state, action, params):
        state.x += action
        return float(state.x), state.x >= 10, state.steps + 1 >= params.shift

    @staticmethod
    def easy(state, action, params):
        if action == 2:
            return 1, 0.0, False, False
        state.x += action
        return 0, float(state.x), state.x >= 10, state.steps + 1 >= params.shift

    @staticmethod
    def observe(state, out):
        out[0] = state.x


def ends(env, actions):
    env.reset(seed=1)
    return [env.step(action)[2:4] for action in actions]


@pytest.mark.slow
def test_the_worlds_truncation_is_or_ed_with_the_time_limit():
    for compiled in (False, True):
        env = KernelEnv(Shift, plain=not compiled)
        assert ends(env, [1] * 7) == [(False, False)] * 6 + [(False, True)]
        assert ends(env, [2] * 5) == [(False, False)] * 4 + [(True, False)]
        env.set_parameters(time_limit=3)
        assert ends(env, [1] * 3) == [(False, False)] * 2 + [(False, True)]
        env.set_parameters(time_limit=0, shift=5)
        assert ends(env, [2] * 5) == [(False, False)] * 4 + [(True, True)]


@pytest.mark.slow
def test_a_batch_and_a_gpu_end_the_same_episodes():
    """Autoreset, final observations and lengths follow; `easy` returns one value more."""
    ours = on_cpu(Shift, 4, "same_step", copy=True)
    theirs = rookery.make_vec(Shift, 4, backend="kernel", autoreset_mode="same_step")
    theirs.action_space.seed(1)
    ours.reset(seed=3), theirs.reset(seed=3)
    truncations = 0
    for _ in range(30):
        actions = theirs.action_space.sample()
        mine, other = ours.step(torch.from_numpy(actions)), theirs.step(actions)
        for a, b in zip(mine[:4], other[:4], strict=True):
            assert np.allclose(a.numpy(), b)
        truncations += other[3].sum()
    assert truncations > 4
    assert theirs.finished_episodes()["length"].max() == 7


class Duel(KernelWorld):
    """Two agents; truncated after 3 steps by the world. Its return statement does not show how many values it has."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)
    state = {"ends": ("i8", (2,))}
    num_agents = 2

    @staticmethod
    def reset(state):
        state.ends[0] = state.ends[1] = 0

    @staticmethod
    def step(state, action, rewards):
        rewards[0], rewards[1] = action[0], action[1]
        over = state.steps >= 2
        return False, over

    @staticmethod
    def observe(state, out, agent):
        out[0] = state.steps


def by_helper(state):
    both = (True, True) if state.steps > 2 else (False, state.steps >= 2)
    return both  # noqa: RET504 - the number of values is that of the variable


class IndirectDuel(Duel):
    @staticmethod
    def step(state, rewards):
        return by_helper(state)


class OpaqueDuel(Duel):
    @staticmethod
    def step(state, rewards):
        return (lambda both: both)((False, state.steps >= 2))


@pytest.mark.parametrize("world", [Duel, IndirectDuel, OpaqueDuel])
def test_with_several_agents_step_returns_terminated_and_truncated(world):
    """Also where only a helper, or only a trial in plain Python, shows the number of values."""
    from rookery.kernel.parallel_env import KernelParallelEnv

    env = KernelParallelEnv(world, plain=True)
    env.reset(seed=1)
    seen = [env.step({agent: 1 for agent in env.possible_agents})[2:4] for _ in range(3)]
    assert [list(terminated.values()) for terminated, _ in seen] == [[False, False]] * 3
    assert [list(truncated.values()) for _, truncated in seen] == [[False, False]] * 2 + [[True, True]]


def test_a_world_without_truncated_does_not_become_one_with_it():
    assert not truncates(find_world(Walker)) and not truncates(find_world("rookery.worlds.hockey.world:HockeyRows"))


class Mixed(Shift):
    easy = None

    @staticmethod
    def step(state, action):
        if action == 0:
            return 0.0, True
        return 1.0, False, False  # wrong


class EasyDiffers(Shift):
    @staticmethod
    def easy(state, action):
        return 1, 0.0, False  # wrong


class WrongType(Shift):
    easy = None

    @staticmethod
    def step(state, action):
        return 1.0, False, 0.5


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (Mixed, r"Mixed.step returns 2 values in line \d+ and 3 in line \d+"),
        (EasyDiffers, "easy returns 3 values, and step 3"),
    ],
)
def test_return_statements_that_differ_are_refused_with_the_line(world, words):
    with pytest.raises(WorldError, match=words) as caught:
        KernelEnv(world, plain=True)
    line = int(str(caught.value).partition('", line ')[2].partition("\n")[0])
    assert linecache.getline(__file__, line).rstrip().endswith("# wrong")


def test_something_else_than_a_bool_is_refused():
    with pytest.raises(WorldError, match=r"0\.5 is not a bool for whether the episode was truncated"):
        KernelEnv(WrongType)
