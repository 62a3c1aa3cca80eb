"""Ratings of players from games of two: an estimate of each player's skill, updated by every game.

The model is openskill's after Bradley and Terry. A game of two is one comparison, and in this model a draw is half a
win to each, so that ratings converge where the results are as expected. (With two players, openskill's other
logistic model, Plackett-Luce, gives the same numbers; Thurstone-Mosteller treats draws as a sign of equal strength.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from rookery.errors import MissingExtra

MU, SIGMA = 25.0, 25.0 / 3.0  # of a new player, as usual with openskill
BETA = 25.0 / 6.0  # a difference in skill of this size shows in most games
STANDARD_DEVIATIONS = 3.0  # below the mean: the skill is almost certainly at least this
DRIFT = (
    25.0 / 1000.0
)  # how far a learner's skill may change in a game; its rating then reflects about the last 200 games


@dataclass(frozen=True)
class Rating:
    """The estimate of a player's skill: its mean and standard deviation.

    >>> print(Rating(30.0, 1.5))
    30.0 ± 1.5
    """

    mu: float = MU
    sigma: float = SIGMA

    @property
    def value(self) -> float:
        """The skill that the player has almost certainly; tables are sorted by it."""
        return self.mu - STANDARD_DEVIATIONS * self.sigma

    def drifted(self) -> Rating:
        """Less certain, as the player has learned since the last game."""
        return Rating(self.mu, math.hypot(self.sigma, DRIFT))

    def __str__(self) -> str:
        return f"{self.mu:.1f} ± {self.sigma:.1f}"


def update(first: Rating, second: Rating, outcome: int) -> tuple[Rating, Rating]:
    """Both ratings after a game that the first player won (1), drew (0) or lost (-1).

    >>> winner, loser = update(Rating(), Rating(), 1)
    >>> print(winner, "and", loser)
    27.6 ± 8.1 and 22.4 ± 8.1
    """
    openskill = model()
    teams = [[openskill.create_rating([rating.mu, rating.sigma])] for rating in (first, second)]
    ((one,), (other,)) = openskill.rate(teams, ranks=[-outcome, outcome])
    return Rating(one.mu, one.sigma), Rating(other.mu, other.sigma)


def expected(first: Rating, second: Rating) -> float:
    """The share of games that the first player should win, with draws as half a win.

    This is what `update` compares results with. openskill's own `predict_win` uses a steeper curve, and is more
    certain than the results that ratings come from.

    >>> expected(Rating(), Rating())
    0.5
    """
    spread = math.sqrt(first.sigma**2 + second.sigma**2 + 2 * BETA**2)
    return 1.0 / (1.0 + math.exp((second.mu - first.mu) / spread))


@cache
def model() -> Any:
    """openskill's model, or an error that says how to get it."""
    try:
        from openskill.models import BradleyTerryPart
    except ImportError:
        raise MissingExtra("a league needs openskill, which is not installed: pip install 'rookery[train]'") from None
    return BradleyTerryPart(mu=MU, sigma=SIGMA, beta=BETA, tau=0.0)
