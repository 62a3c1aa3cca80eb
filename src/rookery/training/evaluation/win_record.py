"""Outcomes of episodes, and records of games with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from rookery.monitor.statistics import mean_interval

RATES = {
    "winner": "win_rate",
    "is_success": "success_rate",
    "success": "success_rate",
}  # infos, and the rates that they add up to
ALL = slice(None)  # rows
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
    return _outcomes(infos.get("final_info") or {}, metadata, ALL)


def outcomes_of_row(infos: Mapping[str, Any], row: int, metadata: Mapping[str, Any]) -> dict[str, float]:
    """The same of one row, from the infos of an episode's last step.

    >>> outcomes_of_row({"winner": np.array([0, 1]), "_winner": np.array([False, True])}, 1, {})
    {'win_rate': 1.0}
    """
    return {name: value for name, (value,) in _outcomes(infos, metadata, slice(row, row + 1)).items()}


def _outcomes(final: Mapping[str, Any], metadata: Mapping[str, Any], rows: slice) -> dict[str, list[float]]:
    found = {}
    for name in (*RATES, *metadata.get("outcomes", ())):
        if name in final:
            values = np.asarray(final[name][rows])[np.asarray(final[f"_{name}"][rows], bool)].tolist()
            if values:
                found[RATES.get(name, name)] = [float(value == 1 if name in RATES else value) for value in values]
    return found


MOST_NUMBERS, LONGEST_NAME = 24, 64  # of a run; the rest is omitted or cut
PREFIX = "info/"  # of these metrics
RESTARTED = "restarted"  # the engine's own info of episodes that a failure cut short, 1 wherever it is: runs count them


def final_numbers(final: Mapping[str, Any], metadata: Mapping[str, Any], rows: slice = ALL) -> dict[str, np.ndarray]:
    """The finite numbers of episodes that ended in one step, by name, from a step's `final_info`. Infos that
    `outcomes_of` turns into metrics, and those of the engine itself, are omitted.

    >>> final = {"equity": np.array([5.0, 0.0, np.nan]), "_equity": np.array([True, False, True])}
    >>> final_numbers(final, {})
    {'equity': array([5.])}
    """
    found, named = {}, (*RATES, *metadata.get("outcomes", ()), RESTARTED)
    for name, column in final.items():
        if isinstance(column, np.ndarray) and column.ndim == 1 and f"_{name}" in final and name not in named:
            values = _numbers(column[rows][np.asarray(final[f"_{name}"][rows], bool)])
            if len(values):
                found[name[:LONGEST_NAME]] = values
    return found


def final_numbers_of_row(infos: Mapping[str, Any], row: int, metadata: Mapping[str, Any]) -> dict[str, float]:
    """The same of one row, as metrics, from the infos of an episode's last step.

    >>> final_numbers_of_row({"equity": np.array([5.0, 6.0]), "_equity": np.array([True, True])}, 1, {})
    {'info/equity': 6.0}
    """
    numbers = final_numbers(infos, metadata, slice(row, row + 1)).items()
    return {PREFIX + name: float(value) for name, (value,) in islice(numbers, MOST_NUMBERS)}


def _numbers(values: np.ndarray) -> np.ndarray:
    """The finite numbers among some values; none of texts and other objects."""
    if values.dtype == object:
        kinds = (bool, int, float, np.number, np.bool_)
        values = np.array([float(x) for x in values if isinstance(x, kinds) and not isinstance(x, complex)])
    if values.dtype.kind not in "biuf":
        return np.zeros(0)
    numbers = values.astype(np.float64)
    return numbers[np.isfinite(numbers)]


STEADY = 1.5  # standard errors; with equal spreads this asks for a little more than the comparison by episodes
WIDE = 0.1  # half of an interval, relative to the mean; of a share of games, absolute


def interval_of(returns: Sequence[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the mean return."""
    return mean_interval(float(np.mean(returns)), float(np.std(returns)), len(returns))


def is_wide(returns: Sequence[float]) -> bool:
    """Whether more episodes would tell more. Episodes that are all the same do not.

    >>> is_wide([0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]), is_wide([500.0] * 10), is_wide([-200.0, -199.0])
    (True, False, False)
    """
    low, high = interval_of(returns)
    mean = (low + high) / 2
    return (high - low) / 2 > max(WIDE * abs(mean), 1e-9 * max(1.0, abs(mean)))


def is_better(returns: Sequence[float], best: Sequence[float], best_mean: float) -> bool:
    """Whether an evaluation is better than the best before by more than noise.

    Its mean must be larger, and so by more than chance: over the episodes that both have played, the mean difference
    exceeds its standard error (these episodes began alike, so their differences vary less than their returns), or its
    own lower bound is above the best mean (a steady agent beats one that sometimes fails, whose failures would be all
    of the difference's error). As the best one stays the same until it is beaten, small steps forward add up.

    Args:
        returns: Of its episodes, by their number.
        best: Those of the best; empty if they are not known (from an earlier version).
        best_mean: The mean return of the best.

    Example:
        >>> is_better([0.0, 1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0], 0.4)  # 0.2 more, with an error of 0.2
        False
        >>> is_better([10.0, 21.0, 32.0], [9.0, 20.0, 30.0], 19.67)
        True
        >>> is_better([93.0] * 5, [98.0, 98.0, 98.0, 97.0, 0.0], 78.2)  # it never fails
        True
    """
    mean = float(np.mean(returns))
    if not mean > best_mean:
        return False
    if not len(best):
        return mean - best_mean > standard_error(returns)
    if mean - STEADY * standard_error(returns) > best_mean:
        return True
    common = min(len(returns), len(best))
    gains = np.subtract(returns[:common], best[:common])
    return float(gains.mean()) > standard_error(gains)


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Of the mean of these values; 0 for a single one, whose spread nobody knows."""
    return float(np.std(values)) / math.sqrt(len(values) - 1) if len(values) > 1 else 0.0
