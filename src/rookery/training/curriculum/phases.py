"""Where a run stands in its phases, and what the next episode of an env is to be. Counts and random numbers that follow
from the seed alone decide everything, so that a resumed run goes the same way."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config import Opponent, Phase
from rookery.training.league.matchmaking import pick

DRAWS = 4  # random numbers for each episode: variant, opponent, and two for the league


@dataclass(frozen=True)
class Plan:
    """What one episode of an env is to be."""

    options: dict[str, Any]  # of the world
    opponent: Opponent | None
    chances: tuple[float, float]  # to draw from the league with


class Phases:
    """The phases of a run, and how far it has come."""

    def __init__(self, phases: Sequence[Phase], seed: int) -> None:
        self.all, self._seed = list(phases), seed
        self.index = 0
        self.episodes = self.steps = 0  # of this phase
        self.uncollected = 0  # episodes that were counted since the last `collect`
        self.started_at = (0, 0)  # episodes and steps of the run when the phase began
        self._outcomes: deque[int] = deque(maxlen=self._window)
        self.shaped = sorted({key for phase in self.all for key in phase.shaping})

    @property
    def now(self) -> Phase:
        return self.all[self.index]

    @property
    def title(self) -> str:
        return self.now.name or f"phase {self.index + 1}"

    @property
    def last(self) -> bool:
        return self.index == len(self.all) - 1

    @property
    def _window(self) -> int:
        return self.now.until.games if self.now.until else 1

    # --- how far it has come ------------------------------------------------------------------------------------

    def add(self, steps: int, episodes: int, outcomes: Sequence[int]) -> None:
        """Count what was played; `outcomes` are 1 for a game won, -1 lost, 0 drawn. Episodes that end together with the
        last one of a phase are not counted, so that phases have the same length with any number of envs."""
        self.steps += steps
        counted = episodes if self.room is None else min(episodes, self.room)
        self.episodes += counted
        self.uncollected += counted
        self._outcomes.extend(outcomes)

    def collect(self) -> int:
        """How many episodes were counted since the last call."""
        counted, self.uncollected = self.uncollected, 0
        return counted

    @property
    def win_rate(self) -> float | None:
        """Over the latest games, if enough were played for the phase's condition."""
        if not self._outcomes or len(self._outcomes) < self._window:
            return None
        return float(np.mean([outcome == 1 for outcome in self._outcomes]))

    @property
    def over(self) -> bool:
        """Whether the phase has reached its end, if it has one."""
        phase, rate = self.now, self.win_rate
        return (
            (phase.episodes is not None and self.episodes >= phase.episodes)
            or (phase.steps is not None and self.steps >= phase.steps)
            or (phase.until is not None and rate is not None and rate >= phase.until.win_rate)
        )

    @property
    def room(self) -> int | None:
        """How many more episodes belong to this phase; None if it does not count them."""
        return None if self.now.episodes is None else max(0, self.now.episodes - self.episodes)

    @property
    def steps_left(self) -> float:
        """How many more steps belong to this phase; infinity if it does not count them."""
        return math.inf if self.now.steps is None else max(0, self.now.steps - self.steps)

    @property
    def share(self) -> float:
        """How much of all phases is over: by their lengths if they are all counted alike, else phase by phase."""
        for unit, done, before in (("steps", self.steps, 1), ("episodes", self.episodes, 0)):
            lengths = [getattr(phase, unit) for phase in self.all]
            if all(lengths):
                return min(1.0, (self.started_at[before] + done) / sum(lengths))
        phase = self.now
        pairs = ((self.episodes, phase.episodes), (self.steps, phase.steps))
        share = max((done / length for done, length in pairs if length), default=0.0)
        return (self.index + min(1.0, share)) / len(self.all)

    def advance(self) -> None:
        """Begin the next phase."""
        self.started_at = (self.started_at[0] + self.episodes, self.started_at[1] + self.steps)
        self.index += 1
        self.episodes = self.steps = 0
        self._outcomes = deque(maxlen=self._window)

    # --- what comes next ----------------------------------------------------------------------------------------

    def plan(self, env: int, episode: int) -> Plan:
        """What the env's next episode is to be, `episode` being its number there."""
        phase = self.now
        chances = np.random.Generator(np.random.Philox(key=[self._seed, env], counter=episode)).random(DRAWS)
        variant = chosen(phase.mixture, chances[0])
        options = {**phase.options, **(variant.options if variant else {})}
        return Plan(options, chosen(phase.opponents, chances[1]), (float(chances[2]), float(chances[3])))

    def weights(self) -> np.ndarray:
        """How much each info in `shaped` counts in an episode that begins now."""
        return np.array([_weight(self.now, key, self.episodes) for key in self.shaped])

    # --- going on later -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "episodes": self.episodes,
            "steps": self.steps,
            "started_at": list(self.started_at),
            "outcomes": list(self._outcomes),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.index, self.episodes, self.steps = state["index"], state["episodes"], state["steps"]
        self.started_at = tuple(state["started_at"])
        self._outcomes = deque(map(int, state["outcomes"]), maxlen=self._window)


def chosen(items: Sequence[Any], chance: float) -> Any:
    """One of some items that have a `weight`, by a random number from [0, 1); None of none.

    >>> chosen([Opponent(who="weak", weight=3), Opponent(who="strong")], 0.8).who
    'strong'
    """
    return items[pick([item.weight for item in items], chance)] if items else None


def _weight(phase: Phase, key: str, episode: int) -> float:
    shaping = phase.shaping.get(key)
    if shaping is None:
        return 0.0
    final = shaping.start if shaping.final is None else shaping.final
    gone = episode - shaping.hold
    if gone <= 0:
        return shaping.start
    return shaping.start + (final - shaping.start) * (min(1.0, gone / shaping.fall) if shaping.fall else 1.0)
