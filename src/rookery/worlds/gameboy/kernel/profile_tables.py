"""A game's profile as tables of numbers, which the compiled world reads: no profile needs code of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rookery.errors import WorldError
from rookery.worlds.gameboy.conditions import Condition
from rookery.worlds.gameboy.observe import largest
from rookery.worlds.gameboy.profile_schema import MemoryFeature, MemoryValue, Profile, Reward

# The columns of each table. Numbers that are not whole are in a table of their own, which has the same rows.
ADDRESS, SIZE, BIG_ENDIAN, BCD, MASK, SHIFT, SIGN = VALUE_COLUMNS = range(7)
KIND, VALUE, OTHER, LOW_OF, HIGH_OF, FIRST_CHOICE, WIDTH = FEATURE_COLUMNS = range(7)
LOW, HIGH, LEAST = BOUND_COLUMNS = range(3)
LEFT, COMPARES, RIGHT = COMPARISON_COLUMNS = range(3)
TERM, FIRST, COUNT, UP, DOWN, DIFFERS, JUMP, WHEN, PARTS, ONCE, VISITED, PLACES = TERM_COLUMNS = range(12)
SCALED, ONE_OF, SAME = range(3)
STEP, CHANGE, FIRST_VISIT, THRESHOLD = range(4)
SIGNS = ("==", "!=", "<=", ">=", "<", ">")
TERMS = {"step": STEP, "change": CHANGE, "first_visit": FIRST_VISIT, "threshold": THRESHOLD}
ENTRY_BYTES = 8  # of a place that was visited: whether there is one, and its values
KEY_BYTES = ENTRY_BYTES - 1
Whole = tuple[int, ...]
NEVER_JUMPS = 1 << 60
NONE = -1  # in place of a value's number


class ProfileTables:
    """The tables of a profile. `visited_bytes` is the memory that its terms need."""

    def __init__(self, profile: Profile, memory: int, length: int) -> None:
        self._index = {name: k for k, name in enumerate(profile.memory)}
        self._parts: list[tuple[int, int, int, float]] = []
        self._named: list[int] = []
        self._choices: list[int] = []
        self._memory, self._length = memory, length
        self.visited_bytes = 0
        features = [self._feature(seen, profile.memory) for seen in profile.observation.memory]
        terms = [self._term(reward, profile.memory) for reward in profile.reward]
        ends = [self._condition(condition) for condition in profile.episode.end]
        success = [self._condition(condition) for condition in [profile.episode.success] if condition]
        self.arrays: dict[str, np.ndarray] = {
            "values": _whole([_value(place) for place in profile.memory.values()], VALUE_COLUMNS),
            "features": _whole([whole for whole, _ in features], FEATURE_COLUMNS),
            "bounds": np.array([bounds for _, bounds in features], np.float64).reshape(-1, len(BOUND_COLUMNS)),
            "terms": _whole(terms, TERM_COLUMNS),
            "weights": np.array([reward.weight for reward in profile.reward], np.float64),
            "comparisons": _whole([(left, sign, right) for left, sign, right, _ in self._parts], COMPARISON_COLUMNS),
            "factors": np.array([factor for *_, factor in self._parts], np.float64),
            "ends": _whole(ends, range(2)),
            "success": _whole(success, range(2)),
            "named": np.array(self._named, np.int64),
            "choices": np.array(self._choices, np.int64),
        }

    def _condition(self, condition: Condition) -> tuple[int, int]:
        first = len(self._parts)
        for part in condition.parts:
            right = NONE if part.right is None else self._index[part.right]
            self._parts.append((self._index[part.left], SIGNS.index(part.sign), right, part.factor))
        return first, len(condition.parts)

    def _feature(self, seen: MemoryFeature, named: Mapping[str, MemoryValue]) -> tuple[Whole, tuple[float, ...]]:
        value, first = self._index[seen.value], len(self._choices)
        if seen.values is not None:
            self._choices += range(seen.values) if isinstance(seen.values, int) else seen.values
            return (ONE_OF, value, NONE, NONE, NONE, first, seen.width), (0.0, 0.0, 0.0)
        if seen.equals is not None:
            other, number = self._bound(seen.equals)
            return (SAME, value, other, NONE, NONE, first, 1), (number, 0.0, 0.0)
        other = NONE if seen.minus is None else self._index[seen.minus]
        low_of, low = self._bound(0 if seen.low is None else seen.low)
        high_of, high = self._bound(largest(named[seen.value]) if seen.high is None else seen.high)
        negative = seen.low is None and (seen.minus is not None or named[seen.value].signed)
        return (SCALED, value, other, low_of, high_of, first, 1), (low, high, -1.0 if negative else 0.0)

    def _bound(self, bound: float | str) -> tuple[int, float]:
        return (self._index[bound], 0.0) if isinstance(bound, str) else (NONE, bound)

    def _term(self, reward: Reward, named: Mapping[str, MemoryValue]) -> tuple[int, ...]:
        first, of = len(self._named), reward.of or []
        self._named += [self._index[name] for name in of]
        when, parts = (NONE, 0) if reward.when is None else self._condition(reward.when)
        visited = self._memory + self.visited_bytes
        places = self._places(reward, named) if reward.kind == "first_visit" else 0
        self.visited_bytes += places * ENTRY_BYTES
        up, down = int(reward.direction == "up"), int(reward.direction == "down")
        jump = NEVER_JUMPS if reward.jump is None else reward.jump
        return (
            TERMS[reward.kind], first, len(of), up, down, int(reward.by == "difference"), jump, when, parts,
            int(reward.once), visited, places,
        )  # fmt: skip

    def _places(self, reward: Reward, named: Mapping[str, MemoryValue]) -> int:
        """How many places there must be for those that are visited in an episode: a power of two, at most half full."""
        size = sum(named[name].size for name in reward.of or ())
        if size > KEY_BYTES:
            raise WorldError(
                f"the reward {reward.name!r} is a first visit of {size} bytes, and compiled code remembers {KEY_BYTES}"
            )
        return 1 << (2 * (self._length + 2) - 1).bit_length()


def _value(place: MemoryValue) -> tuple[int, ...]:
    mask = place.bits or (1 << 8 * place.size) - 1
    shift = (mask & -mask).bit_length() - 1
    sign = 1 << (8 * place.size - 1) if place.signed else 0
    return (place.address, place.size, int(place.big_endian), int(place.bcd), mask, shift, sign)


def _whole(rows: Sequence[tuple[int, ...]], columns: range) -> np.ndarray:
    return np.array(list(rows), np.int64).reshape(-1, len(columns))
