"""Plain Python takes what compiled code takes, and notices what that would not."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

import rookery
from kernel.samples import Tug, Walker
from rookery.errors import StateError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.plain_values import note_truncations
from rookery.kernel.random import integer
from rookery.kernel.world import KernelWorld
from rookery.testing import check_world

pytestmark = pytest.mark.usefixtures("short_checks")

SIDE = 4
MOVES = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


def inside(x, y):
    return 0 <= x < SIDE and 0 <= y < SIDE


class Maze(KernelWorld):
    """Bytes, rows of rows, and whole numbers that come from NumPy's constants or from floats."""

    observation_space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = spaces.Discrete(4)
    state = {"walls": ("u1", (SIDE, SIDE)), "visits": ("i4", (SIDE,)), "x": "i8", "y": "i8"}
    time_limit = 20

    @staticmethod
    def reset(state):
        for k in range(SIDE):
            state.walls[k][integer(state, 0, SIDE)] = True
        state.walls[0, 0] = 0

    @staticmethod
    def step(state, action):
        x, y = state.x + MOVES[action, 0], state.y + MOVES[action, 1]
        if inside(x, y) and not state.walls[x][y]:
            state.x, state.y = x, y
        state.visits[state.x] += 1.0
        return state.visits[state.x], state.x == SIDE - 1

    @staticmethod
    def observe(state, out):
        for x in range(SIDE):
            for y in range(SIDE):
                out[x, y] = 99.5 * state.walls[x, y]
        out[state.x][state.y] = 255

    @staticmethod
    def action_mask(state, out):
        for action in range(4):
            x, y = state.x + MOVES[action, 0], state.y + MOVES[action, 1]
            out[action] = inside(x, y) and state.walls[x, y] == 0


@pytest.mark.slow
def test_numbers_are_stored_as_compiled_code_stores_them():
    """NumPy's bools and floats go into arrays of whole numbers, and rows of rows can be indexed either way."""
    plain, compiled = KernelEnv(Maze, plain=True), KernelEnv(Maze)
    plain.reset(seed=1), compiled.reset(seed=1)
    plain.action_space.seed(1)
    for _ in range(60):
        action = plain.action_space.sample()
        one, other = plain.step(action), compiled.step(action)
        assert np.array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        assert np.array_equal(one[4]["action_mask"], other[4]["action_mask"])
        if one[2] or one[3]:
            plain.reset(), compiled.reset()


def test_a_copy_of_the_state_stays_as_it_is():
    """However it is copied; the original is live."""
    env = KernelEnv(Walker, plain=True)
    env.reset(seed=1)
    before, trail = env.state.place, list(env.state.trail)
    copies = [copy.copy(env.state), copy.deepcopy(env.state), pickle.loads(pickle.dumps(env.state))]
    env.step(2)
    assert env.state.place != before
    assert all(kept.place == before and list(kept.trail) == trail for kept in copies)
    assert np.asarray(KernelEnv(Maze, plain=True).state.walls).dtype == np.uint8


def test_half_a_state_is_refused():
    """In words; nothing is set."""
    env = KernelEnv(Walker, plain=True)
    env.reset(seed=1)
    for bad in ({}, {**env.get_state(), "more": np.zeros(1, np.uint8)}):
        with pytest.raises(StateError, match="a state of Walker should hold states, params"):
            env.set_state(bad)


class Sparse(Tug):
    """A reward in the first step alone."""

    @staticmethod
    def step(state, action, rewards):
        if state.steps == 0:
            rewards[0] = 1.0
        return False


@pytest.mark.usefixtures("plain_python")
def test_rewards_that_are_not_set_are_0():
    """They are not those of the step before."""
    envs = rookery.make_vec(Sparse, 2, backend="kernel")
    envs.reset(seed=1)
    rewards = [envs.step(envs.action_space.sample())[1].tolist() for _ in range(3)]
    assert rewards == [[1.0, 0.0, 1.0, 0.0], [0.0] * 4, [0.0] * 4]


class Fractions(Walker):
    state = {**Walker.state, "half": "i8", "cells": ("i4", (2,)), "whole": "i8"}

    @staticmethod
    def reset(state):
        state.whole = 4.0
        state.half = 2.75
        state.cells[1] = -1.5
        state.cells[:] = 0.5
        state.cells[:] = 3.0


@pytest.mark.slow
def test_floats_that_lose_their_fraction_are_noted():
    """An integer field truncates, plain and compiled; the line that stores the number is named."""
    env, compiled = KernelEnv(Fractions, plain=True), KernelEnv(Fractions)
    compiled.reset(seed=1)
    with note_truncations() as noted:
        env.reset(seed=1)
    assert env.state.half == compiled.state.half == 2
    first = Fractions.reset.__code__.co_firstlineno
    assert [text.partition(";")[0] for text in noted] == [
        "2.75 becomes 2 in the integer field 'half'",
        "-1.5 becomes -1 in an array of integers",
        "0.5 becomes 0 in an array of integers",
    ]
    assert [text.partition("line ")[2] for text in noted] == [str(first + k) for k in (3, 4, 5)]


@pytest.mark.slow
def test_a_check_names_the_first_of_them():
    assert [text.partition(";")[0] for text in check_world(Fractions).advice if "becomes" in text] == [
        "2.75 becomes 2 in the integer field 'half'"
    ]
    assert not [text for text in check_world(Walker).advice if "becomes" in text]
