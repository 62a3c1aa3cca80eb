"""Ratings of players from games of two: an estimate of each player's skill, updated by every game.

The model is openskill's after Bradley and Terry. A game of two is one comparison, and in this model a draw is half a
win to each, so that ratings converge where the results are as expected. (With two players, openskill's other
logistic model, Plackett-Luce, gives the same numbers; Thurstone-Mosteller treats draws as a sign of equal strength.)
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import MissingExtra
from rookery.files import own_folder
from rookery.monitor.jsonl import append_record, open_append_only

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


@cache
def model() -> Any:
    """openskill's model, or an error that says how to get it."""
    try:
        from openskill.models import BradleyTerryPart
    except ImportError:
        raise MissingExtra("a league needs openskill, which is not installed: pip install 'rookery[train]'") from None
    return BradleyTerryPart(mu=MU, sigma=SIGMA, beta=BETA, tau=0.0)


RATINGS_FILE = "ratings.jsonl"
LINES = 200  # in a run, about, besides those for agents that enter
KEYS = ("kind", "step", "mu", "sigma", "won", "drawn", "lost", "win_rate")
DIGITS = 4


class RatingLog:
    """Appends lines. After a resume the first line has all players."""

    def __init__(self, folder: Path, total_steps: int) -> None:
        self._folder, self._every = Path(folder), max(1, total_steps // LINES)
        self._known: dict[str, dict[str, Any]] = {}

    def due(self, before: int, steps: int) -> bool:
        """Whether a line should be written between `before` and `steps`."""
        return steps // self._every != before // self._every

    def append(self, step: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows that have changed; see `league_rows`."""
        now = {row["name"]: _short(row) for row in rows}
        changed = {name: row for name, row in now.items() if self._known.get(name) != row}
        if not changed:
            return
        line = json.dumps({"step": step, "time": time.time(), "players": changed}, separators=(",", ":"))
        with open_append_only(own_folder(self._folder, parents=False) / RATINGS_FILE) as file:
            append_record(file, line.encode() + b"\n")
        self._known = now


def _short(row: dict[str, Any]) -> dict[str, Any]:
    known = {key: row[key] for key in KEYS if row[key] is not None}
    return {key: round(value, DIGITS) if isinstance(value, float) else value for key, value in known.items()}


TOLERANCE = 1e-9  # a change of a rating below which the fit has converged
MAX_ITERATIONS = 10_000


@dataclass(frozen=True)
class PairResults:
    """`won[a, b]` games were won by a against b, `drawn[a, b]` by neither."""

    won: np.ndarray
    drawn: np.ndarray

    @classmethod
    def of(cls, players: int, pairs: np.ndarray, winner: np.ndarray) -> PairResults:
        """From games: the two players, [game, 2], and whether the first of them won (1), drew (0) or lost (-1)."""
        won, drawn = np.zeros((2, players, players), np.int64)
        first, second = pairs.T
        np.add.at(won, (first, second), winner == 1)
        np.add.at(won, (second, first), winner == -1)
        np.add.at(drawn, (first, second), winner == 0)
        return cls(won, drawn + drawn.T)

    @property
    def games(self) -> np.ndarray:
        return self.won + self.drawn + self.won.T

    @property
    def shares(self) -> np.ndarray:
        """The share of games that each won against each, a draw being half a win; NaN for pairs without games."""
        with np.errstate(invalid="ignore"):
            return (self.won + 0.5 * self.drawn) / self.games

    @property
    def win_rates(self) -> np.ndarray:
        """The share of all its games that each won."""
        return self.won.sum(1) / self.games.sum(1)

    @property
    def scores(self) -> np.ndarray:
        """The same with a draw as half a win."""
        return (self.won + 0.5 * self.drawn).sum(1) / self.games.sum(1)

    def rate(self) -> list[Rating]:
        """Ratings of all players. openskill's updates depend on the order of games, which is right for players who
        learn; these do not. So the means are fitted such that all games together would neither raise nor lower them,
        and each round of games reduces the standard deviations as openskill does."""
        sigma = np.full(len(self.won), SIGMA)
        mu = self._fit_means(np.full(len(self.won), MU), sigma)
        for played in range(self.games.max(initial=0)):
            sigma = _reduced_sigma(mu, sigma, self.games > played)
        return [Rating(*pair) for pair in zip(self._fit_means(mu, sigma).tolist(), sigma.tolist(), strict=True)]

    def _fit_means(self, mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """The fitted means. The prior limits those of players who won or lost all games."""
        games, points = self.games, self.won + 0.5 * self.drawn
        spread = np.sqrt(sigma[:, None] ** 2 + sigma**2 + 2 * BETA**2)
        for _ in range(MAX_ITERATIONS):
            expected = 1.0 / (1.0 + np.exp((mu - mu[:, None]) / spread))
            slope = ((points - games * expected) / spread).sum(1) + (MU - mu) / SIGMA**2
            curvature = (games * expected * (1.0 - expected) / spread**2).sum(1) + 1.0 / SIGMA**2
            change = 0.5 * slope / curvature  # half of Newton's step, as the other players' means change too
            mu = mu + change
            mu += MU - mu.mean()  # games decide differences only: keep the prior's mean
            if np.abs(change).max() < TOLERANCE:
                break
        return mu


def _reduced_sigma(mu: np.ndarray, sigma: np.ndarray, meet: np.ndarray) -> np.ndarray:
    """The standard deviations after a game of each pair. The result of the game does not matter for that."""
    after = sigma.copy()
    for a, b in zip(*np.nonzero(np.triu(meet, 1)), strict=True):
        one, other = update(Rating(mu[a], sigma[a]), Rating(mu[b], sigma[b]), 0)
        after[a] *= one.sigma / sigma[a]
        after[b] *= other.sigma / sigma[b]
    return after


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's rank correlation: 1 for the same order, -1 for the reverse.

    >>> spearman(np.array([1, 5, 9]), np.array([0.1, 0.2, 0.2])).__round__(3)
    0.866
    """
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks in ascending order; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[place]
