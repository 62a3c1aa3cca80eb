"""How likely the best of several trials was chosen by luck, from their values in the folds of a cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.errors import OptionError


@dataclass(frozen=True)
class FoldOverfitting:
    """The result of `fold_overfitting`.

    Attributes:
        probability: How often the best trial of a fold is below the median of the trials in the folds that share no
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
    below = chosen < np.median(after, axis=0)
    return FoldOverfitting(float(below.mean()), float((chosen <= 0).mean()), len(table))
