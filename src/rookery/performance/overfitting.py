"""How likely a good backtest is luck: after Bailey and López de Prado (2012, 2014) and Bailey and others (2014, 2017).

All Sharpe ratios here are per period of the returns, not annualised, and kurtosis is 3 for a normal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np

from rookery.errors import OptionError
from rookery.performance.ratios import NO_SPREAD

NORMAL = NormalDist()
EULER_MASCHERONI = 0.5772156649015329
MOST_GROUPS = 20  # 184,756 choices; with 30 there are 155 million
CHUNK = 4_000_000  # sums at a time


def moments(returns: np.ndarray) -> dict[str, float]:
    """What the functions below take: Sharpe ratio, number of returns, skewness and kurtosis.

    >>> {name: round(value, 3) for name, value in moments(np.array([0.01, 0.02, -0.01, 0.02])).items()}
    {'sharpe': 0.707, 'observations': 4, 'skewness': -0.816, 'kurtosis': 2.0}
    """
    values = np.asarray(returns, np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise OptionError(f"moments need one series of at least 2 finite returns; it got {values.shape}")
    centred = values - values.mean()
    spread = math.sqrt(np.square(centred).mean())
    if spread <= NO_SPREAD * np.abs(values).max():
        return {"sharpe": 0.0, "observations": len(values), "skewness": 0.0, "kurtosis": 3.0}
    scaled = centred / spread
    ratio = values.mean() / values.std(ddof=1)
    skewness, kurtosis = float((scaled**3).mean()), float((scaled**4).mean())
    return {"sharpe": float(ratio), "observations": len(values), "skewness": skewness, "kurtosis": kurtosis}


def probabilistic_sharpe(
    sharpe: float, observations: float, skewness: float = 0.0, kurtosis: float = 3.0, benchmark: float = 0.0
) -> float:
    """The probability that the true Sharpe ratio is above `benchmark`.

    >>> round(probabilistic_sharpe(0.458, 24, skewness=-2.448, kurtosis=10.164), 3)
    0.913
    """
    if observations < 2:
        raise OptionError(f"observations={observations!r}: give at least 2")
    return NORMAL.cdf((sharpe - benchmark) * math.sqrt((observations - 1) / _variance(sharpe, skewness, kurtosis)))


def minimum_track_record(
    sharpe: float, benchmark: float = 0.0, skewness: float = 0.0, kurtosis: float = 3.0, confidence: float = 0.95
) -> float:
    """How many returns are needed to be so confident that the true Sharpe ratio is above `benchmark`.

    It is infinite if the Sharpe ratio is not above it.

    >>> daily = 252**0.5  # a Sharpe ratio of 2 a year, above 1 a year
    >>> round(minimum_track_record(2 / daily, 1 / daily) / 252, 2)
    2.73
    """
    if not 0 < confidence < 1:
        raise OptionError(f"confidence={confidence!r}: give a number between 0 and 1")
    if sharpe <= benchmark:
        return math.inf
    return 1 + _variance(sharpe, skewness, kurtosis) * (NORMAL.inv_cdf(confidence) / (sharpe - benchmark)) ** 2


def expected_maximum_sharpe(trials: int, variance: float) -> float:
    """The highest Sharpe ratio to expect of so many independent trials that are all worth nothing.

    Args:
        trials: How many strategies or settings were compared.
        variance: The variance of their Sharpe ratios.

    >>> round(expected_maximum_sharpe(10, 1.0), 2)
    1.57
    """
    if trials < 1 or not variance >= 0:
        raise OptionError(
            f"trials={trials!r}, variance={variance!r}: give at least 1 trial, and a variance of 0 or more"
        )
    if trials == 1:
        return 0.0
    upper, further = NORMAL.inv_cdf(1 - 1 / trials), NORMAL.inv_cdf(1 - 1 / (trials * math.e))
    return math.sqrt(variance) * ((1 - EULER_MASCHERONI) * upper + EULER_MASCHERONI * further)


def deflated_sharpe(
    sharpe: float, observations: float, trials: int, variance: float, skewness: float = 0.0, kurtosis: float = 3.0
) -> float:
    """The probability that the best of `trials` has a true Sharpe ratio above 0.

    Args:
        sharpe: The Sharpe ratio of the best trial.
        observations: How many returns it has.
        trials: How many strategies or settings were compared, as if they were independent.
        variance: The variance of the Sharpe ratios of all trials.
        skewness: The skewness of the best trial's returns.
        kurtosis: Their kurtosis.

    >>> daily = 250**0.5
    >>> round(deflated_sharpe(2.5 / daily, 1250, 100, 0.5 / 250, skewness=-3, kurtosis=10), 4)
    0.9004
    """
    best = expected_maximum_sharpe(trials, variance)
    return probabilistic_sharpe(sharpe, observations, skewness, kurtosis, best)


@dataclass(frozen=True)
class Overfitting:
    """The result of `backtest_overfitting`.

    Attributes:
        probability: How often the best trial of one half of the rows is in the worse half of the trials in the other.
        loss: How often its Sharpe ratio there is below 0.
        slope: How its Sharpe ratio there changes with its Sharpe ratio in the first half: by a straight line.
        logits: For each choice of rows, the logit of its rank in the other half: negative in the worse half.
    """

    probability: float
    loss: float
    slope: float
    logits: np.ndarray


def backtest_overfitting(returns: np.ndarray, groups: int = 16) -> Overfitting:
    """The probability of backtest overfitting, by combinatorially symmetric cross-validation (CSCV).

    Args:
        returns: An array (periods, trials): the returns of every strategy or setting that was compared, not only of the
        best.
        groups: The number of stretches of rows, even, at most 20. Each choice of half of them is the first half once:
            12,870 choices with 16.

    >>> luck = np.random.default_rng(1).normal(0, 0.01, (960, 50))
    >>> backtest_overfitting(luck, groups=8).probability > 0.2
    True
    """
    values = np.asarray(returns, np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not np.isfinite(values).all():
        raise OptionError(f"give finite returns (periods, trials) of at least 2 trials; it got {values.shape}")
    if groups % 2 or not 2 <= groups <= min(MOST_GROUPS, len(values) // 2):
        raise OptionError(
            f"groups={groups!r}: give an even number up to {MOST_GROUPS}, with at least 2 of the {len(values)} rows in "
            "each"
        )
    edges = np.arange(groups) * len(values) // groups
    powers = np.ones_like(values), values, values**2
    return block_overfitting(np.stack([np.add.reduceat(each, edges, axis=0) for each in powers], axis=-1))


def block_overfitting(sums: np.ndarray) -> Overfitting:
    """The same from the sums over blocks of rows: an array (blocks, trials, 3) with the number of returns of each trial
    in each block, their sum, and the sum of their squares."""
    halves = _halves(len(sums))
    most = max(1, CHUNK // sums[0].size)
    parts = [_best_of_halves(sums, halves[start : start + most]) for start in range(0, len(halves), most)]
    best, after, rank = (np.concatenate(each) for each in zip(*parts, strict=True))
    logits = np.log(rank / (1 - rank))
    before = best - best.mean()
    slope = float(before @ after / (before @ before)) if before @ before > 0 else 0.0
    return Overfitting(float((logits <= 0).mean()), float((after < 0).mean()), slope, logits)


def _best_of_halves(sums: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each choice of blocks: the highest Sharpe ratio in them, that of the same trial in the others, and its rank
    there, from 0 to 1."""
    blocks, trials = sums.shape[:2]
    first, second = (
        _sharpes(*np.moveaxis((half @ sums.reshape(blocks, -1)).reshape(-1, trials, 3), -1, 0))
        for half in (chosen, 1 - chosen)
    )
    rows, best = np.arange(len(first)), first.argmax(axis=1)
    after = second[rows, best]
    below = (second < after[:, None]).sum(axis=1) + ((second == after[:, None]).sum(axis=1) + 1) / 2  # mean of ties
    return first[rows, best], after, below / (trials + 1)


def _halves(groups: int) -> np.ndarray:
    """Each choice of half of the groups, as a row of 0 and 1."""
    chosen = np.array(list(combinations(range(groups), groups // 2)))
    halves = np.zeros((len(chosen), groups))
    np.put_along_axis(halves, chosen, 1.0, axis=1)
    return halves


def _sharpes(count: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    mean = total / count
    variance = (squares / count - mean**2) * count / np.maximum(count - 1, 1)
    varies = variance > NO_SPREAD * squares / count
    return np.where(varies, mean / np.sqrt(np.where(varies, variance, 1.0)), 0.0)


def _variance(sharpe: float, skewness: float, kurtosis: float) -> float:
    """The variance of an estimated Sharpe ratio, times the number of returns - 1."""
    variance = 1 - skewness * sharpe + (kurtosis - 1) / 4 * sharpe**2
    if not variance > 0:
        raise OptionError(f"no returns have the skewness {skewness:g} and the kurtosis {kurtosis:g}")
    return variance


@dataclass(frozen=True)
class FoldOverfitting:
    """The result of `fold_overfitting`.

    Attributes:
        probability: How often the best trial of a fold is not above the median of the trials in the folds that share no
            test bar with it.
        loss: How often its value there is not above 0.
        trials: How many trials were compared.
    """

    probability: float
    loss: float
    trials: int


def fold_overfitting(values: np.ndarray, tested: Sequence[Sequence[int]]) -> FoldOverfitting:
    """The probability of backtest overfitting, from the values (trials, folds) of a combinatorial cross-validation.

    With 4 groups of which 2 are tested, each fold has one other that tests on all other bars: these are the 6 choices
    of combinatorially symmetric cross-validation. With more groups, it is the mean over all folds without a common
    group. Among trials that are all worth the same the probability is about one half too, whether that is nothing or
    much: `loss` tells which.

    Args:
        values: One row per trial, with a number for every fold.
        tested: The groups of bars that each fold tests on.

    >>> pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    >>> fold_overfitting(np.array([[1.0] * 6, [2.0] * 6, [-1.0] * 6]), pairs)
    FoldOverfitting(probability=0.0, loss=0.0, trials=3)
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] != len(tested) or not np.isfinite(table).all():
        raise OptionError(
            f"give finite values (trials, folds) of at least 2 trials in {len(tested)} folds; it got {table.shape}"
        )
    others = [[k for k, theirs in enumerate(tested) if not set(mine) & set(theirs)] for mine in tested]
    if not all(others):
        raise OptionError("a fold shares test bars with every other one: test on at most half of the groups")
    after = np.stack([table[:, k].mean(axis=1) for k in others], axis=1)  # (trials, folds)
    best = table.argmax(axis=0)
    chosen = after[best, np.arange(table.shape[1])]
    below = chosen <= np.median(after, axis=0)  # the median itself is no better than an average choice: Bailey's phi
    return FoldOverfitting(float(below.mean()), float((chosen <= 0).mean()), len(table))
