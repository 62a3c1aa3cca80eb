"""Conditions in a profile, such as "hearts == 0" or "mode == 1 and health <= 0.25 * max_health"."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Test = Callable[[Sequence[int]], bool]

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
NAME = r"[A-Za-z_]\w*"
NUMBER = r"[+-]?(?:0[xX][0-9A-Fa-f]+|\d+\.?\d*|\.\d+)"
COMPARISON = re.compile(
    rf"\s*(?P<left>{NAME})\s*(?P<sign>==|!=|<=|>=|<|>)\s*"
    rf"(?:(?P<number>{NUMBER})\s*(?:\*\s*(?P<times>{NAME}))?|(?P<right>{NAME}))\s*"
)
HELP = 'a condition is written as "NAME == VALUE", with ==, !=, <, <=, > or >=, a number or another name, and `and`'

OR = ". There is no `or`: write two conditions in `end`, or two rewards"


@dataclass(frozen=True)
class Comparison:
    """A value compared with a number, with another value, or with a factor times another value."""

    left: str
    sign: str
    factor: float
    right: str | None  # None: against `factor` itself

    def __str__(self) -> str:
        share = "" if self.right is None else f" * {self.right}"
        return f"{self.left} {self.sign} {self.factor}{share}"

    def can_hold(self, low: float, high: float) -> bool:
        """Whether the comparison with the number can be true for any value from low to high."""
        number = self.factor
        if self.sign == "==":
            return low <= number <= high and number == int(number)
        return self.sign == "!=" or any(OPERATORS[self.sign](end, number) for end in (low, high))

    def test(self, index: Mapping[str, int]) -> Test:
        compare, i, factor = OPERATORS[self.sign], index[self.left], self.factor
        if self.right is None:
            return lambda values: compare(values[i], factor)
        k = index[self.right]
        return lambda values: compare(values[i], factor * values[k])


@dataclass(frozen=True)
class Condition:
    """Comparisons that must all be true."""

    parts: tuple[Comparison, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values it uses."""
        return tuple(name for part in self.parts for name in (part.left, part.right) if name is not None)

    def test(self, index: Mapping[str, int]) -> Test:
        """The condition as a function of the list of all values; `index` gives the position of each name."""
        tests = [part.test(index) for part in self.parts]
        return tests[0] if len(tests) == 1 else lambda values: all(test(values) for test in tests)


def any_of(conditions: Sequence[Condition], index: Mapping[str, int]) -> Test:
    """Whether any of the conditions is true, as a function of the list of all values."""
    tests = [condition.test(index) for condition in conditions]

    def holds(values: Sequence[int]) -> bool:
        for test in tests:  # noqa: SIM110 - `any` with a generator takes three times as long
            if test(values):
                return True
        return False

    return holds


def parse(text: str) -> Condition:
    """Parse a condition; the ValueError of an invalid one explains the syntax.

    >>> parse("mode == 1 and health <= 0.25 * max_health").names
    ('mode', 'health', 'max_health')
    >>> parse("hearts < 2").test({"hearts": 0})([1])
    True
    """
    return Condition(tuple(_comparison(part, text) for part in re.split(r"\band\b|&&", text)))


def _comparison(part: str, whole: str) -> Comparison:
    found = COMPARISON.fullmatch(part)
    if found is None:
        hint = OR if re.search(r"\bor\b|\|\|", whole) else ""
        raise ValueError(f"{whole!r} cannot be read: {HELP}{hint}")
    number = found["number"]
    return Comparison(found["left"], found["sign"], _value(number or "1"), found["right"] or found["times"])


def _value(number: str) -> float:
    if "x" in number.lower():
        return int(number, 16)
    return float(number) if "." in number else int(number)
