"""The phases of a run: how far it has come in them, and what the next episode of each env will be.

Only counts, and random numbers that follow from the seed, decide anything: a resumed run continues the same way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config import Opponent, Phase
from rookery.training.league.league import pick

DRAWS = 4  # random numbers per episode: variant, opponent, and two for the league


@dataclass(frozen=True)
class EpisodePlan:
    """What one episode of an env will be."""

    options: dict[str, Any]  # of the world
    opponent: Opponent | None
    league_draws: tuple[float, float]  # random numbers for the league's choice


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
    def current(self) -> Phase:
        return self.all[self.index]

    @property
    def title(self) -> str:
        return self.current.name or f"phase {self.index + 1}"

    @property
    def last(self) -> bool:
        return self.index == len(self.all) - 1

    @property
    def _window(self) -> int:
        return self.current.until.games if self.current.until else 1

    # --- counting -----------------------------------------------------------------------------------------------

    def add(self, steps: int, episodes: int, outcomes: Sequence[int]) -> None:
        """Count steps and episodes; `outcomes` are 1 for a game won, -1 lost, 0 drawn. Episodes that end at the same
        step as the last one of a phase are not counted, so that a phase is as long with any number of envs."""
        self.steps += steps
        counted = episodes if self.episodes_left is None else min(episodes, self.episodes_left)
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
        phase, rate = self.current, self.win_rate
        return (
            (phase.episodes is not None and self.episodes >= phase.episodes)
            or (phase.steps is not None and self.steps >= phase.steps)
            or (phase.until is not None and rate is not None and rate >= phase.until.win_rate)
        )

    @property
    def episodes_left(self) -> int | None:
        """How many more episodes this phase has; None if its length is not in episodes."""
        return None if self.current.episodes is None else max(0, self.current.episodes - self.episodes)

    @property
    def steps_left(self) -> float:
        """How many more steps this phase has; infinity if its length is not in steps."""
        return math.inf if self.current.steps is None else max(0, self.current.steps - self.steps)

    @property
    def share_done(self) -> float:
        """The share of all phases that is done: by their lengths if all are in steps or all in episodes, else phase by
        phase."""
        for unit, done, before in (("steps", self.steps, 1), ("episodes", self.episodes, 0)):
            lengths = [getattr(phase, unit) for phase in self.all]
            if all(lengths):
                return min(1.0, (self.started_at[before] + done) / sum(lengths))
        phase = self.current
        pairs = ((self.episodes, phase.episodes), (self.steps, phase.steps))
        share = max((done / length for done, length in pairs if length), default=0.0)
        return (self.index + min(1.0, share)) / len(self.all)

    def begin_next(self) -> None:
        self.started_at = (self.started_at[0] + self.episodes, self.started_at[1] + self.steps)
        self.index += 1
        self.episodes = self.steps = 0
        self._outcomes = deque(maxlen=self._window)

    # --- the next episodes --------------------------------------------------------------------------------------

    def plan_episode(self, env: int, episode: int) -> EpisodePlan:
        """What the next episode of an env will be; `episode` is its number in that env."""
        phase = self.current
        draws = np.random.Generator(np.random.Philox(key=[self._seed, env], counter=episode)).random(DRAWS)
        variant = weighted_choice(phase.mixture, draws[0])
        options = {**phase.options, **(variant.options if variant else {})}
        return EpisodePlan(options, weighted_choice(phase.opponents, draws[1]), (float(draws[2]), float(draws[3])))

    def shaping_weights(self) -> np.ndarray:
        """The weight of each info in `shaped` in the rewards of an episode that begins now."""
        return np.array([_shaping_weight(self.current, key, self.episodes) for key in self.shaped])

    # --- checkpoints --------------------------------------------------------------------------------------------

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


def weighted_choice(items: Sequence[Any], draw: float) -> Any:
    """One of some items that have a `weight`, by a random number from [0, 1); None if there are no items.

    >>> weighted_choice([Opponent(who="weak", weight=3), Opponent(who="strong")], 0.8).who
    'strong'
    """
    return items[pick([item.weight for item in items], draw)] if items else None


def _shaping_weight(phase: Phase, key: str, episode: int) -> float:
    shaping = phase.shaping.get(key)
    if shaping is None:
        return 0.0
    final = shaping.start if shaping.final is None else shaping.final
    past = episode - shaping.hold
    if past <= 0:
        return shaping.start
    return shaping.start + (final - shaping.start) * (min(1.0, past / shaping.fall) if shaping.fall else 1.0)
