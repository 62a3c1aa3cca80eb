"""The reward: terms of a profile, added up at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.worlds.gameboy.conditions import Test
from rookery.worlds.gameboy.observe import Values
from rookery.worlds.gameboy.profile_schema import Reward


class Term:
    """One term. Its state within an episode is in `memory`, as tuples of numbers."""

    def __init__(self, reward: Reward, index: Mapping[str, int]) -> None:
        self.name, self.weight = reward.name, reward.weight
        self.memory: set[tuple[int, ...]] = set()
        self._places = [index[name] for name in reward.of or ()]
        self._when: Test | None = None if reward.when is None else reward.when.test(index)

    def begin(self, values: Values) -> None:
        """Start an episode with these values."""
        self.memory.clear()

    def give(self, before: Values, now: Values) -> float:
        """The reward of a step from the values `before` to the values `now`."""
        raise NotImplementedError

    def holds(self, values: Values) -> bool:
        """Whether the condition `when` is true, if there is one."""
        return self._when is None or self._when(values)


class EachStep(Term):
    """The same reward at every step."""

    def give(self, before: Values, now: Values) -> float:
        return self.weight if self._when is None or self._when(now) else 0.0


class Change(Term):
    """A reward when the value, or one of several values, changes."""

    def __init__(self, reward: Reward, index: Mapping[str, int]) -> None:
        super().__init__(reward, index)
        self._direction, self._differs = reward.direction, reward.by == "difference"
        self._jump = float("inf") if reward.jump is None else reward.jump

    def give(self, before: Values, now: Values) -> float:
        for k in self._places:
            if before[k] != now[k]:
                return self._worth(now[k] - before[k]) if self.holds(now) else 0.0
        return 0.0

    def _worth(self, difference: int) -> float:
        wrong_way = difference < 0 if self._direction == "up" else difference > 0 and self._direction == "down"
        if wrong_way or abs(difference) >= self._jump:
            return 0.0
        if not self._differs:
            return self.weight
        return self.weight * (-difference if self._direction == "down" else difference)


class FirstVisit(Term):
    """A reward for values that are new in this episode; those at its start do not count."""

    def begin(self, values: Values) -> None:
        self.memory = {tuple([values[k] for k in self._places])}

    def give(self, before: Values, now: Values) -> float:
        here = tuple([now[k] for k in self._places])
        if here in self.memory or not self.holds(now):
            return 0.0
        self.memory.add(here)
        return self.weight


class Threshold(Term):
    """A reward when a condition is true: at every step, or only the first time in an episode."""

    def __init__(self, reward: Reward, index: Mapping[str, int]) -> None:
        super().__init__(reward, index)
        self._once = reward.once

    def give(self, before: Values, now: Values) -> float:
        if (self._once and self.memory) or not self.holds(now):
            return 0.0
        if self._once:
            self.memory.add((1,))
        return self.weight


KINDS: dict[str, type[Term]] = {"step": EachStep, "change": Change, "first_visit": FirstVisit, "threshold": Threshold}


class Rewards:
    """The sum of all reward terms of a profile."""

    def __init__(self, rewards: Sequence[Reward], index: Mapping[str, int]) -> None:
        self.terms = [KINDS[reward.kind](reward, index) for reward in rewards]
        self._give = [term.give for term in self.terms]

    def begin(self, values: Values) -> None:
        for term in self.terms:
            term.begin(values)

    def give(self, before: Values, now: Values) -> float:
        total = 0.0
        for give in self._give:
            total += give(before, now)
        return total

    def give_each(self, before: Values, now: Values) -> list[float]:
        """The reward of each term, in the profile's order."""
        return [give(before, now) for give in self._give]

    def get_state(self) -> dict[str, Any]:
        """The state of the terms, as arrays."""
        return {term.name: np.array(sorted(term.memory), np.int64) for term in self.terms if term.memory}

    def set_state(self, state: Mapping[str, Any]) -> None:
        for term in self.terms:
            term.memory = {tuple(row) for row in np.asarray(state.get(term.name, ())).tolist()}
