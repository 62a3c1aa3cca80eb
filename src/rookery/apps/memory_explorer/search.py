"""The search for a byte: mark a moment, play on, and keep those bytes that did what was seen on the screen."""

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
    """All bytes at a mark (`then`) and `now`, and in how many frames since the mark each of them changed."""

    then: np.ndarray
    now: np.ndarray
    changes: np.ndarray

    def risen(self) -> np.ndarray:
        return self.now.astype(np.int16) - self.then


def _by(number: int | None, difference: np.ndarray) -> np.ndarray:
    return difference > 0 if number is None else difference == number


COMPARED: dict[str, Keep] = {  # with what was at the mark
    "changed": lambda m, n: m.now != m.then if n is None else m.changes == n,
    "same": lambda m, n: m.now == m.then,
    "up": lambda m, n: _by(n, m.risen()),
    "down": lambda m, n: _by(n, -m.risen()),
}
VALUED: dict[str, Keep] = {  # with a number, which must be there
    "=": lambda m, n: m.now == n,
    "!=": lambda m, n: m.now != n,
    "<": lambda m, n: m.now < n,
    ">": lambda m, n: m.now > n,
    "<=": lambda m, n: m.now <= n,
    ">=": lambda m, n: m.now >= n,
}
ALIASES = {"equal": "=", "equals": "=", "==": "=", "stayed": "same", "unchanged": "same", "rose": "up", "fell": "down"}


def number(text: str) -> int:
    """A number as people write it: 12, 0x0C or $0C.

    >>> number("12"), number("0x1f"), number("$1F")
    (12, 31, 31)
    """
    try:
        return int(text) if text.isdecimal() else int(text.replace("$", "0x"), 0)
    except ValueError:
        raise OptionError(f"{text!r} is not a number: write 12, 0x0C or $0C") from None


def parse_filter(text: str) -> tuple[Keep, int | None]:
    """Read what is asked of a byte, such as "changed", "down 1" or "= 3"."""
    found = FILTER.fullmatch(text.strip().lower())
    word = "" if found is None else ALIASES.get(found["word"], found["word"])
    if found is None or word not in {**COMPARED, **VALUED}:
        raise OptionError(f"{text!r} says nothing about a byte: there are {HELP}")
    value = None if found["number"] is None else number(found["number"])
    if word in VALUED and value is None:
        raise OptionError(f"{word} needs a number, such as {word} 3")
    if word == "same" and value is not None:
        raise OptionError("same takes no number; bytes that are 3 now are found by = 3")
    return {**COMPARED, **VALUED}[word], value


class Search:
    """Which bytes are still in question. Each `narrow` compares with the last mark, and is the next one."""

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
        """A frame in which these bytes changed."""
        self.changes += changed

    def mark(self, now: np.ndarray) -> None:
        """This is the moment to compare with."""
        self.was = self.then = now
        self.changes[:] = 0

    def narrow(self, text: str, now: np.ndarray) -> None:
        """Keep the bytes for which this is true, and mark the moment."""
        keep, value = parse_filter(text)
        self._before.append(self.left)
        compared = self.then
        self.left = self.left & keep(Moment(compared, now, self.changes), value)
        self.mark(now)
        self.was = compared

    def undo(self) -> None:
        """Take the last `narrow` back; the mark stays where it is."""
        if not self._before:
            raise OptionError("there is nothing to take back: no diff has been made")
        self.left = self._before.pop()
