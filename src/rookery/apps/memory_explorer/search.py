"""The search for a byte: set a mark, continue to play, and keep the bytes that changed as the screen did."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rookery.errors import OptionError

HELP = "changed, same, up, down (each but same also with a number), = N, != N, < N, > N"
FILTER = re.compile(r"(?P<word>[a-z]+|==?|!=|<=|>=|<|>)\s*(?P<number>\S+)?")
Keep = Callable[["Moment", int | None], np.ndarray]


@dataclass(frozen=True)
class Moment:
    """All bytes at the mark (`then`) and `now`, and the number of frames since the mark in which each changed."""

    then: np.ndarray
    now: np.ndarray
    changes: np.ndarray

    def risen(self) -> np.ndarray:
        return self.now.astype(np.int16) - self.then


def _by(number: int | None, difference: np.ndarray) -> np.ndarray:
    return difference > 0 if number is None else difference == number


COMPARED: dict[str, Keep] = {  # compared with the value at the mark
    "changed": lambda m, n: m.now != m.then if n is None else m.changes == n,
    "same": lambda m, n: m.now == m.then,
    "up": lambda m, n: _by(n, m.risen()),
    "down": lambda m, n: _by(n, -m.risen()),
}
VALUED: dict[str, Keep] = {  # compared with a number, which is required
    "=": lambda m, n: m.now == n,
    "!=": lambda m, n: m.now != n,
    "<": lambda m, n: m.now < n,
    ">": lambda m, n: m.now > n,
    "<=": lambda m, n: m.now <= n,
    ">=": lambda m, n: m.now >= n,
}
ALIASES = {"equal": "=", "equals": "=", "==": "=", "stayed": "same", "unchanged": "same", "rose": "up", "fell": "down"}


def number(text: str) -> int:
    """A number, written as 12, 0x0C or $0C.

    >>> number("12"), number("0x1f"), number("$1F")
    (12, 31, 31)
    """
    try:
        return int(text) if text.isdecimal() else int(text.replace("$", "0x"), 0)
    except ValueError:
        raise OptionError(f"{text!r} is not a number: write 12, 0x0C or $0C") from None


def parse_filter(text: str) -> tuple[Keep, int | None]:
    """Parse a filter, such as "changed", "down 1" or "= 3"."""
    found = FILTER.fullmatch(text.strip().lower())
    word = "" if found is None else ALIASES.get(found["word"], found["word"])
    if found is None or word not in {**COMPARED, **VALUED}:
        raise OptionError(f"{text!r} is not a filter: use {HELP}")
    value = None if found["number"] is None else number(found["number"])
    if word in VALUED and value is None:
        raise OptionError(f"{word} needs a number, such as {word} 3")
    if word == "same" and value is not None:
        raise OptionError("same takes no number; use = 3 for bytes that are 3 now")
    return {**COMPARED, **VALUED}[word], value


class Search:
    """The remaining candidates. Each `narrow` compares with the last mark, and sets the next one."""

    def __init__(self, now: np.ndarray) -> None:
        self.was = self.then = now  # `was`: what the last diff compared with
        self.changes = np.zeros(len(now), np.int64)
        self.left = np.ones(len(now), bool)
        self._before: list[np.ndarray] = []

    @property
    def begun(self) -> bool:
        return bool(self._before)

    @property
    def count(self) -> int:
        return int(self.left.sum())

    def note(self, changed: np.ndarray) -> None:
        """Count a frame in which these bytes changed."""
        self.changes += changed

    def mark(self, now: np.ndarray) -> None:
        """Set the mark at this moment."""
        self.was = self.then = now
        self.changes[:] = 0

    def narrow(self, text: str, now: np.ndarray) -> None:
        """Keep the bytes that pass the filter, and set the mark."""
        keep, value = parse_filter(text)
        self._before.append(self.left)
        compared = self.then
        self.left = self.left & keep(Moment(compared, now, self.changes), value)
        self.mark(now)
        self.was = compared

    def undo(self) -> None:
        """Revert the last `narrow`; the mark stays."""
        if not self._before:
            raise OptionError("there is no diff to undo")
        self.left = self._before.pop()
