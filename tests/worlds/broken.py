"""Kernel worlds with one mistake each; `wrong` marks the line that an error should point at."""

from __future__ import annotations

import numpy as np

from worlds import samples
from worlds.samples import Steerer


def far_away(x):
    return x.nothing  # wrong: Helper


class UndeclaredField(Steerer):
    @staticmethod
    def step(state, action):
        state.speed = 1.0  # wrong: UndeclaredField
        return 0.0, False


class Helper(Steerer):
    @staticmethod
    def step(state, action):
        return far_away(state.x), False


class UnknownName(Steerer):
    @staticmethod
    def step(state, action):
        return nobody_knows(state), False  # noqa: F821 - wrong: UnknownName


class Allocates(Steerer):
    @staticmethod
    def step(state, action):
        state.x += np.zeros(3)[1]  # wrong: Allocates
        return 0.0, False


class ThroughModule(Steerer):
    @staticmethod
    def step(state, action):
        return samples.half(state.x), False  # wrong: ThroughModule


class Raises(Steerer):
    @staticmethod
    def step(state, action):
        if state.x > 1e9:
            raise ValueError("too far")  # wrong: Raises
        return 0.0, False


class WritesTooFar(Steerer):
    @staticmethod
    def observe(state, out):
        out[1] = state.x  # wrong: WritesTooFar


class ReturnsOne(Steerer):
    @staticmethod
    def step(state, action):
        return 1.0


class AsksForMore(Steerer):
    @staticmethod
    def step(state, action, wind):
        return 1.0, False


class NotStatic(Steerer):
    def step(self, state, action):
        return 1.0, False


class TakenName(Steerer):
    state = {"x": "f8", "seed": "i4"}


class OddType(Steerer):
    state = {"x": "no such type"}


class NoSpace(Steerer):
    observation_space = None


class NoKinds(Steerer):
    hard_kinds = 0
