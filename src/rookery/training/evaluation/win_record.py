"""Outcomes of episodes, and records of games with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

RATES = {
    "winner": "win_rate",
    "is_success": "success_rate",
    "success": "success_rate",
}  # infos, and the rates that they add up to
Z = 1.959964  # of a normal distribution, 95 % lie within so many standard deviations


@dataclass(frozen=True)
class WinRecord:
    """The results of some games for the first player."""

    won: int
    drawn: int
    lost: int
    returns: float  # mean, over the games in which the world's rewards are this player's
    lengths: float  # mean

    @property
    def games(self) -> int:
        return self.won + self.drawn + self.lost

    @property
    def win_rate(self) -> float:
        return self.won / self.games

    @property
    def draw_rate(self) -> float:
        return self.drawn / self.games

    @property
    def loss_rate(self) -> float:
        return self.lost / self.games

    def interval(self, count: int) -> tuple[float, float]:
        """The 95 % confidence interval of a share, if `count` of the games had this result (Wilson).

        >>> [round(end, 3) for end in WinRecord(90, 5, 5, 0.0, 0.0).interval(90)]
        [0.826, 0.945]
        """
        n, share = self.games, count / self.games
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        reach = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
        return max(0.0, middle - reach), min(1.0, middle + reach)

    def as_json(self) -> dict[str, Any]:
        """
        >>> WinRecord(3, 0, 1, 7.5, 80.0).as_json()["win_rate"]
        0.75
        """
        return {
            "games": self.games,
            "won": self.won,
            "drawn": self.drawn,
            "lost": self.lost,
            "win_rate": self.win_rate,
            "draw_rate": self.draw_rate,
            "loss_rate": self.loss_rate,
            "win_rate_interval": list(self.interval(self.won)),
            "loss_rate_interval": list(self.interval(self.lost)),
            "return_mean": self.returns,
            "length_mean": self.lengths,
        }

    def __str__(self) -> str:
        won, lost = (self._share(count) for count in (self.won, self.lost))
        return f"won {won}, drawn {100 * self.draw_rate:.1f} %, lost {lost} of {self.games:,} games"

    def _share(self, count: int) -> str:
        low, high = self.interval(count)
        return f"{100 * count / self.games:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


@dataclass(frozen=True)
class GameResults:
    """The result of each game, by its number."""

    winners: np.ndarray  # 1 where the first player won, -1 where it lost, else 0
    returns: np.ndarray  # of the first player; NaN where the world's rewards are the other player's
    lengths: np.ndarray

    def joined(self, later: GameResults) -> GameResults:
        """With the games that were played after these."""
        parts = ((getattr(self, name), getattr(later, name)) for name in ("winners", "returns", "lengths"))
        return GameResults(*map(np.concatenate, parts))

    def record(self) -> WinRecord:
        """The totals and means."""
        won, drawn, lost = (int((self.winners == outcome).sum()) for outcome in (1, 0, -1))
        return WinRecord(won, drawn, lost, float(np.nanmean(self.returns)), float(self.lengths.mean()))


def outcomes_of(infos: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, list[float]]:
    """Metrics of the episodes that ended in this step, by name: whether they were won or succeeded, and the infos that
    the world names in its metadata's "outcomes".

    >>> final = {"winner": np.array([1, -1, 0]), "_winner": np.array([True, True, False])}
    >>> outcomes_of({"final_info": final}, {})
    {'win_rate': [1.0, 0.0]}
    """
    final, found = infos.get("final_info"), {}
    if not final:
        return {}
    for name in (*RATES, *metadata.get("outcomes", ())):
        if name in final:
            values = np.asarray(final[name])[np.asarray(final[f"_{name}"], bool)]
            rate = RATES.get(name)
            found[rate or name] = [float(value == 1 if rate else value) for value in values.tolist()]
    return {name: values for name, values in found.items() if values}


def outcomes_of_row(infos: Mapping[str, Any], row: int, metadata: Mapping[str, Any]) -> dict[str, float]:
    """The same of one row, from the infos of an episode's last step.

    >>> outcomes_of_row({"winner": np.array([0, 1]), "_winner": np.array([False, True])}, 1, {})
    {'win_rate': 1.0}
    """
    found = {}
    for name in (*RATES, *metadata.get("outcomes", ())):
        if name in infos and infos[f"_{name}"][row]:
            value = infos[name][row]
            found[RATES.get(name, name)] = float(value == 1 if name in RATES else value)
    return found
