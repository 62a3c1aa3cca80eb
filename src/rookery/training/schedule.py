"""What is due at regular distances."""

from __future__ import annotations

import math
from typing import NamedTuple

PARTS_OF_A_RUN = 10  # evaluations and checkpoints, unless their distance is given


class Counts(NamedTuple):
    """How far a run has come."""

    steps: int
    episodes: int


class Every:
    """Due each time so many steps or episodes are full.

    >>> every = Every(steps=None, episodes=10)
    >>> every.passed(Counts(0, 8), Counts(500, 10)), every.passed(Counts(500, 10), Counts(900, 19))
    (True, False)
    """

    def __init__(self, steps: int | None, episodes: int | None) -> None:
        self._steps, self._episodes = steps, episodes

    @classmethod
    def of(cls, steps: int | None, episodes: int | None, total_steps: int, total_episodes: int | None) -> Every:
        """As it was asked for; else ten times in a run, whose length is in steps or in episodes."""
        if steps is None and episodes is None:
            if total_episodes is None:
                return cls(max(1, total_steps // PARTS_OF_A_RUN), None)
            return cls(None, max(1, total_episodes // PARTS_OF_A_RUN))
        return cls(steps, episodes)

    def passed(self, before: Counts, now: Counts) -> bool:
        """Whether it has become due since."""
        pairs = ((self._steps, before.steps, now.steps), (self._episodes, before.episodes, now.episodes))
        return any(every is not None and late // every > early // every for every, early, late in pairs)

    def steps_left(self, steps: int) -> float:
        """How many steps until it is due again; infinity if steps do not decide."""
        return math.inf if self._steps is None else self._steps - steps % self._steps
