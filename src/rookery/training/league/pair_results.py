"""The results of a tournament: how often each player beat each other, and the ratings that follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.training.league.ratings import BETA, MU, SIGMA, Rating, update

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
        """Games of each pair."""
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
