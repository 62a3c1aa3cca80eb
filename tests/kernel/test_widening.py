"""Compiled code computes what plain Python does."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from kernel import trial_worlds
from kernel.trial_worlds import ConnectFour, DoublePendulum, Snake, TraderF4, TraderF8
from rookery import KernelWorld
from rookery.engine.autotune import legal
from rookery.kernel.kernel_env import KernelEnv

STEPS = 1000
WORLDS = {
    "snake": lambda: Snake(),
    "prices in singles": lambda: TraderF4(bars=trial_worlds.bars().astype("f4")),
    "prices in doubles": lambda: TraderF8(bars=trial_worlds.bars()),
    "connect four": lambda: ConnectFour(),
    "double pendulum": lambda: DoublePendulum(),
}


def compare(world, steps):
    """Step an env compiled and in plain Python, with the same actions; everything must be the same bit for bit."""
    compiled, plain = KernelEnv(world), KernelEnv(world, plain=True)
    compiled.action_space.seed(1)
    last = compiled.reset(seed=5)
    np.testing.assert_array_equal(last[0], plain.reset(seed=5)[0])
    ends = 0
    for step in range(steps):
        action = legal(compiled.action_space, compiled.action_space.sample(), last)
        last, there = compiled.step(action), plain.step(action)
        for mine, other in zip(last[:4], there[:4], strict=True):
            np.testing.assert_array_equal(mine, other, f"step {step}")
        assert {key: value.tolist() for key, value in last[4].items()} == {
            key: value.tolist() for key, value in there[4].items()
        }
        if last[2] or last[3]:
            ends += 1
            last = compiled.reset()
            plain.reset()
    assert ends > 3


@pytest.mark.slow
@pytest.mark.parametrize("world", ["snake", "prices in singles"])
def test_a_newcomers_world_gives_the_same_numbers_compiled_and_plain(world):
    """Those with bytes and with singles; the others, and longer, among the slow tests."""
    compare(WORLDS[world](), STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_a_newcomers_world_gives_the_same_numbers_for_10_000_steps(world):
    compare(WORLDS[world](), 10_000)


ONE_SEVENTH = np.float32(1 / 7)
BYTES = np.array([3, 5, 250], np.uint8)
SINGLES = np.array([0.1, 0.7], np.float32)


class Arithmetic(KernelWorld):
    """Reads narrow numbers from everywhere: fields, tables, constants, actions."""

    observation_space = spaces.Box(-np.inf, np.inf, (8,), np.float64)
    action_space = spaces.Box(-1, 1, (1,), np.float32)
    state = {"byte": ("u1", (2,)), "single": "f4", "word": "u4"}
    tables = {"bytes": BYTES, "singles": np.array([[0.1, 0.7]], np.float32)}

    @staticmethod
    def reset(state):
        state.byte[0], state.byte[1] = 3, 5
        state.single = 1 / 7
        state.word = 1

    @staticmethod
    def step(state, action):
        return float(state.single) * 3.0 + action[0] / 3, False

    @staticmethod
    def observe(state, tables, out):
        out[0] = state.byte[0] - state.byte[1]
        out[1] = float(state.single)
        out[2] = state.single * state.single / 3
        out[3] = tables.bytes[0] - tables.bytes[1]
        out[4] = tables.singles[0, 0] / tables.singles[0, 1]
        out[5] = BYTES[2] + BYTES[2]
        out[6] = SINGLES[0] / SINGLES[1] * ONE_SEVENTH
        out[7] = state.word - 2


@pytest.mark.slow
def test_narrow_types_are_for_storage_and_numbers_are_python_s():
    """A difference of bytes may be negative, and the quotient of two singles is a double."""
    expected = [-2, float(ONE_SEVENTH), float(ONE_SEVENTH) ** 2 / 3, -2]
    expected += [float(SINGLES[0]) / float(SINGLES[1]), 500]
    expected += [float(SINGLES[0]) / float(SINGLES[1]) * float(ONE_SEVENTH), -1]
    for plain in (False, True):
        env = KernelEnv(Arithmetic, plain=plain)
        assert env.reset(seed=1)[0].tolist() == expected
        assert env.step(np.array([0.3], np.float32))[1] == float(ONE_SEVENTH) * 3.0 + float(np.float32(0.3)) / 3
