"""What came of a tournament: who beat whom how often, and how good everyone is by that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.training.league.ratings import BETA, MU, SIGMA, Rating, update

SETTLED = 1e-9  # a change in a rating that is none
ROUNDS = 10_000  # after which it is taken as it is


@dataclass(frozen=True)
class PairResults:
    """`won[a, b]` games were won by a against b, `drawn[a, b]` by neither."""

    won: np.ndarray
    drawn: np.ndarray

    @classmethod
    def of(cls, players: int, pairs: np.ndarray, winner: np.ndarray) -> PairResults:
        """From games: who met, [game, 2], and whether the first of them won (1), drew (0) or lost (-1)."""
        won, drawn = np.zeros((2, players, players), np.int64)
        first, second = pairs.T
        np.add.at(won, (first, second), winner == 1)
        np.add.at(won, (second, first), winner == -1)
        np.add.at(drawn, (first, second), winner == 0)
        return cls(won, drawn + drawn.T)

    @property
    def games(self) -> np.ndarray:
        """How often each met each."""
        return self.won + self.drawn + self.won.T

    @property
    def shares(self) -> np.ndarray:
        """What each won of the games against each, a draw being half a win; not a number where they did not meet."""
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
        """How good everyone is. What openskill makes of games depends on their order, which is right for players who
        learn; these do not. So the means are put where all games together would neither raise nor lower them, and each
        round of games makes everyone surer by what openskill says."""
        sigma = np.full(len(self.won), SIGMA)
        mu = self._settled(np.full(len(self.won), MU), sigma)
        for played in range(self.games.max(initial=0)):
            sigma = _surer(mu, sigma, self.games > played)
        return [Rating(*pair) for pair in zip(self._settled(mu, sigma).tolist(), sigma.tolist(), strict=True)]

    def _settled(self, mu: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """Where the means come to rest. What is believed before any game holds back who won or lost them all."""
        games, points = self.games, self.won + 0.5 * self.drawn
        spread = np.sqrt(sigma[:, None] ** 2 + sigma**2 + 2 * BETA**2)
        for _ in range(ROUNDS):
            expected = 1.0 / (1.0 + np.exp((mu - mu[:, None]) / spread))
            slope = ((points - games * expected) / spread).sum(1) + (MU - mu) / SIGMA**2
            bend = (games * expected * (1.0 - expected) / spread**2).sum(1) + 1.0 / SIGMA**2
            move = 0.5 * slope / bend  # half of the way to rest if the others stood still, as they move too
            mu = mu + move
            mu += MU - mu.mean()  # where games leave the whole of them to what was believed before
            if np.abs(move).max() < SETTLED:
                break
        return mu


def _surer(mu: np.ndarray, sigma: np.ndarray, meet: np.ndarray) -> np.ndarray:
    """The deviations after a game of each two who meet. How it ends does not matter for that."""
    after = sigma.copy()
    for a, b in zip(*np.nonzero(np.triu(meet, 1)), strict=True):
        one, other = update(Rating(mu[a], sigma[a]), Rating(mu[b], sigma[b]), 0)
        after[a] *= one.sigma / sigma[a]
        after[b] *= other.sigma / sigma[b]
    return after


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """How alike two orders are: 1 if they are the same, -1 if one is the other backwards.

    >>> spearman(np.array([1, 5, 9]), np.array([0.1, 0.2, 0.2])).__round__(3)
    0.866
    """
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Places in ascending order; equal values share theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1))[place]
