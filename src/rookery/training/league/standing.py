"""How a learner's games against one opponent went, and how good the opponent is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rookery.errors import CheckpointError
from rookery.training.league.ratings import Rating
from rookery.training.storage.state_tree import Tree, check_kinds

MEMORY = 0.99  # what a game counts for after one more: about the last hundred count
MOST = 1e6  # that a rating can be
PRIOR = 4.0  # games, half of them won, that are believed in before any was played


@dataclass
class Standing:
    """An opponent's rating, and the learner's results against it."""

    rating: Rating = field(default_factory=Rating)
    won: int = 0
    drawn: int = 0
    lost: int = 0
    _weight: float = 0.0  # of the games that are remembered
    _score: float = 0.0  # and what was won of it

    @property
    def games(self) -> int:
        return self.won + self.drawn + self.lost

    @property
    def win_rate(self) -> float:
        """How likely the learner is to win the next game, by the latest ones; a draw is half a win.

        >>> Standing().win_rate
        0.5
        """
        return (self._score + 0.5 * PRIOR) / (self._weight + PRIOR)

    def note(self, outcome: int) -> None:
        """A game that the learner won (1), drew (0) or lost (-1)."""
        self.won += outcome > 0
        self.drawn += outcome == 0
        self.lost += outcome < 0
        self._weight = MEMORY * self._weight + 1.0
        self._score = MEMORY * self._score + 0.5 * (1 + outcome)

    def state(self) -> Tree:
        """As plain values."""
        return {
            **rating_state(self.rating), "won": self.won, "drawn": self.drawn, "lost": self.lost,
            "weight": self._weight, "score": self._score,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Standing:
        check_kinds(state, cls().state(), ("standing",))
        counts = (state[name] for name in ("won", "drawn", "lost", "weight", "score"))
        return cls(rating_from(state), *counts)


def rating_from(state: dict[str, Any]) -> Rating:
    """A rating from plain values, which may be anybody's."""
    check_kinds(state, rating_state(Rating()), ("rating",))
    if not all(abs(state[name]) < MOST for name in ("mu", "sigma")):
        raise CheckpointError(f"a rating of {state['mu']!r:.20} ± {state['sigma']!r:.20} cannot be")
    return Rating(float(state["mu"]), float(state["sigma"]))


def rating_state(rating: Rating) -> Tree:
    return {"mu": rating.mu, "sigma": rating.sigma}
