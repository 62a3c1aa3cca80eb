"""How much the mean of some episodes says: when more are needed, and whether one evaluation is better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rookery.monitor.statistics import mean_interval

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

    Its mean must be larger and, over the episodes that both have played, the mean difference must exceed its standard
    error: these episodes began alike, so their differences vary less than their returns. As the best one stays the
    same until it is beaten, small steps forward add up.

    Args:
        returns: Of its episodes, by their number.
        best: Those of the best; empty if they are not known (from an earlier version).
        best_mean: The mean return of the best.

    Example:
        >>> is_better([0.0, 1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0], 0.4)  # 0.2 more, with an error of 0.2
        False
        >>> is_better([10.0, 21.0, 32.0], [9.0, 20.0, 30.0], 19.67)
        True
    """
    mean = float(np.mean(returns))
    if not mean > best_mean:
        return False
    if not len(best):
        return mean - best_mean > standard_error(returns)
    common = min(len(returns), len(best))
    gains = np.subtract(returns[:common], best[:common])
    return float(gains.mean()) > standard_error(gains)


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Of the mean of these values; 0 for a single one, whose spread nobody knows."""
    return float(np.std(values)) / math.sqrt(len(values) - 1) if len(values) > 1 else 0.0
