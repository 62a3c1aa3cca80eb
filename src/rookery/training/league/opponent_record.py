"""The learner's results against one opponent, and the opponent's rating."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rookery.errors import CheckpointError
from rookery.training.league.ratings import Rating
from rookery.training.storage.state_tree import Tree, check_types

DECAY = 0.99  # of a game's weight with each later game: about the last hundred count
MAX_RATING = 1e6
PRIOR = 4.0  # games, half of them won, that are assumed before the first one


@dataclass
class OpponentRecord:
    """An opponent's rating, and the learner's results against it."""

    rating: Rating = field(default_factory=Rating)
    won: int = 0
    drawn: int = 0
    lost: int = 0
    _weight: float = 0.0  # of the games, by their decay
    _score: float = 0.0  # the part of it that was won

    @property
    def games(self) -> int:
        return self.won + self.drawn + self.lost

    @property
    def win_rate(self) -> float:
        """The learner's expected share of the next game, from the latest ones; a draw is half a win.

        >>> OpponentRecord().win_rate
        0.5
        """
        return (self._score + 0.5 * PRIOR) / (self._weight + PRIOR)

    def add_game(self, outcome: int) -> None:
        """Count a game that the learner won (1), drew (0) or lost (-1)."""
        self.won += outcome > 0
        self.drawn += outcome == 0
        self.lost += outcome < 0
        self._weight = DECAY * self._weight + 1.0
        self._score = DECAY * self._score + 0.5 * (1 + outcome)

    def add_more(self, won: int, drawn: int, lost: int, counted: Sequence[int]) -> None:
        """Count games of which some were counted already, as if these had been the last ones."""
        more = (won - counted.count(1), drawn - counted.count(0), lost - counted.count(-1))
        games = sum(more)
        if not games:
            return
        self.won, self.drawn, self.lost = self.won + more[0], self.drawn + more[1], self.lost + more[2]
        before = DECAY**games
        weight = (1.0 - before) / (1.0 - DECAY)
        self._weight = before * self._weight + weight
        self._score = before * self._score + weight * (more[0] + 0.5 * more[1]) / games

    def state(self) -> Tree:
        """As plain values, for a checkpoint."""
        return {
            **rating_state(self.rating), "won": self.won, "drawn": self.drawn, "lost": self.lost,
            "weight": self._weight, "score": self._score,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> OpponentRecord:
        check_types(state, cls().state(), ("standing",))
        counts = (state[name] for name in ("won", "drawn", "lost", "weight", "score"))
        return cls(rating_from(state), *counts)


def rating_from(state: dict[str, Any]) -> Rating:
    """A rating from plain values, which are checked: the file may be from anywhere."""
    check_types(state, rating_state(Rating()), ("rating",))
    if not all(abs(state[name]) < MAX_RATING for name in ("mu", "sigma")):
        raise CheckpointError(f"a rating of {state['mu']!r:.20} ± {state['sigma']!r:.20} is not possible")
    return Rating(float(state["mu"]), float(state["sigma"]))


def rating_state(rating: Rating) -> Tree:
    return {"mu": rating.mu, "sigma": rating.sigma}
