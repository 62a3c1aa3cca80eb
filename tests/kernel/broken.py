"""Kernel worlds with one mistake each; `wrong` marks the line that an error should point at."""

from __future__ import annotations

import math
from math import fsum as exact_sum
from random import gauss

import numpy as np
from gymnasium import spaces

from kernel import samples
from kernel.samples import Steerer, Tug
from rookery.kernel.random import uniform


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


class ReturnsTheObservation(Steerer):
    @staticmethod
    def observe(state, out):
        return state.x  # wrong: ReturnsTheObservation


class RebindsTheObservation(Steerer):
    @staticmethod
    def observe(state, out):
        if state.x > 0.0:
            out = state.x  # noqa: F841 - wrong: RebindsTheObservation


class UnpacksIntoOut(Steerer):
    @staticmethod
    def observe(state, out):
        speed, out = state.x, state.x  # noqa: F841 - wrong: UnpacksIntoOut


class ResetReturns(Steerer):
    @staticmethod
    def reset(state):
        if state.episode > 1:
            return None
        return state.x, {}  # wrong: ResetReturns


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


class FloatAgents(Steerer):
    num_agents = 1.5


class NamedParameter(Steerer):
    parameters = {"speed": "fast"}


class NoLimit(Steerer):
    time_limit = None


class KeywordField(Steerer):
    state = {"x": "f8", "for": "f8"}


class HiddenTable(Steerer):
    tables = {"_prices": np.zeros(3)}


class WordTable(Steerer):
    tables = {"names": np.array(["a", "b"])}


class RaggedTable(Steerer):
    tables = {"levels": [[1, 2], [3]]}


class ListedState(Steerer):
    state = ["x"]


class BoolArray(Steerer):
    state = {"x": "f8", "walls": ("?", (3, 3))}


class WordField(Steerer):
    info = {"name": str}


class HalfFloats(Steerer):
    observation_space = spaces.Box(-1, 1, (1,), np.float16)


class EngineInfo(Steerer):
    info = {"final_obs": "f8"}


class MaskedBox(Steerer):
    @staticmethod
    def action_mask(state, out):
        out[0] = 1


class AliasOfNothing(Steerer):
    aliases = {"quick": "speed"}


class RewardsOfOne(Steerer):
    @staticmethod
    def step(state, action, rewards):
        rewards[0] = 1.0
        return 1.0, False


class SwappedReturns(Steerer):
    @staticmethod
    def step(state, action):
        return False, 1.0


class BothReturned(Tug):
    @staticmethod
    def step(state, action, rewards):
        return 1.0, False


class NoSuper(Steerer):
    def __init__(self):
        self.size = 3


def factorial(n):  # wrong: Recursive
    return 1 if n < 2 else n * factorial(n - 1)


class Recursive(Steerer):
    @staticmethod
    def step(state, action):
        return factorial(3), False


class ReadsAClass(Steerer):
    SPEED = 2.0

    @staticmethod
    def step(state, action):
        return ReadsAClass.SPEED, False  # wrong: ReadsAClass


class NumpyRandom(Steerer):
    @staticmethod
    def step(state, action):
        return np.random.rand(), False  # wrong: NumpyRandom


class PythonRandom(Steerer):
    @staticmethod
    def step(state, action):
        return gauss(0.0, 1.0), False  # wrong: PythonRandom


class SetsAGlobal(Steerer):
    @staticmethod
    def step(state, action):
        global TOTAL
        TOTAL = 1.0  # wrong: SetsAGlobal
        return 0.0, False


class Clips(Steerer):
    @staticmethod
    def step(state, action):
        return np.clip(state.x, 0, 1), False  # wrong: Clips


class WritesASlice(Steerer):
    @staticmethod
    def observe(state, out):
        out[:] = state.x  # wrong: WritesASlice


class TooLarge(Steerer):
    state = {"x": "f8", "small": "u1"}

    @staticmethod
    def step(state, action):
        state.small = 300  # wrong: TooLarge
        return 0.0, False


class DrawsFromANumber(Steerer):
    @staticmethod
    def step(state, action):
        return uniform(state.x, 0.0, 1.0), False  # wrong: DrawsFromANumber


PAY = (1.0, 2.0, 3.0)


class BeyondATuple(Steerer):
    """Three steps go well."""

    @staticmethod
    def step(state, action):
        return PAY[state.steps], False


class EasyWithoutAKind(Steerer):
    @staticmethod
    def easy(state, action):
        return 0.0, False


class EasyChanges(Steerer):
    @staticmethod
    def easy(state, action):
        state.x += 1.0
        return 1, 0.0, False


class EasyMisspelt(Steerer):
    @staticmethod
    def easy(state, action):
        return 1, state.y, False  # wrong: EasyMisspelt


PAIR = [1.0, 2.0]
TABLE = {"a": 1.0}


def first_of(values):
    return values[0]


def first_of_default(values=[1.0]):  # noqa: B006 - wrong: ListDefault
    return values[0]


class SumsExactly(Steerer):
    @staticmethod
    def step(state, action):
        return math.fsum((state.x, 1.0)), False  # wrong: SumsExactly


class SumsByName(Steerer):
    @staticmethod
    def step(state, action):
        return exact_sum((state.x, 1.0)), False  # wrong: SumsByName


class MultipliesAll(Steerer):
    @staticmethod
    def step(state, action):
        return math.prod((state.x, 1.0)), False  # wrong: MultipliesAll


class ListConstant(Steerer):
    @staticmethod
    def step(state, action):
        return PAIR[0] * state.x, False  # wrong: ListConstant


class DictConstant(Steerer):
    @staticmethod
    def step(state, action):
        return TABLE["a"] * state.x, False  # wrong: DictConstant


class ListArgument(Steerer):
    @staticmethod
    def step(state, action):
        return first_of([state.x, 1.0]), False  # wrong: ListArgument


class ListDefault(Steerer):
    @staticmethod
    def step(state, action):
        return first_of_default(), False


class MemoryView(Steerer):
    @staticmethod
    def step(state, action):
        return float(memoryview(action)[0]), False  # wrong: MemoryView


class WholeArray(Steerer):
    state = {**Steerer.state, "pair": ("f8", (2,))}

    @staticmethod
    def step(state, action):
        doubled = state.pair * 2.0  # wrong: WholeArray
        return doubled[0], False


class ArrayMethod(WholeArray):
    @staticmethod
    def step(state, action):
        return state.pair[0:2].sum(), False  # wrong: ArrayMethod


class OfTheStandardLibrary(Steerer):
    @staticmethod
    def step(state, action):
        return float(math.isqrt(4)), False  # wrong: OfTheStandardLibrary
