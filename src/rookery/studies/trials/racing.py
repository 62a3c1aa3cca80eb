"""Racing: whether a trial may still be the best, so that another seed is worth its time.

The rule, for a trial with the values x1 ... xn of its first n seeds, and the best of the trials that have all seeds,
with m values of mean B: train another seed while

    mean(x1 ... xn) + 1.96 * s * sqrt(1/n + 1/m) >= B

s is the standard deviation between the seeds of one trial, pooled over all trials with two seeds or more, also this
one. While less than FEW degrees of freedom are known, every trial gets its next seed. The rule depends on the values
alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

FEW = 4  # degrees of freedom of the pooled deviation
QUANTILE = 1.96  # a trial that equals the best is given up once in 40 times


def may_be_best(values: Sequence[float], others: Sequence[Sequence[float]], seeds: int) -> bool:
    """Whether a trial with these values may still be better than the best of the others.

    Args:
        values: Of the trial's seeds so far.
        others: Of the seeds of the finished trials.
        seeds: How many seeds a complete trial has.

    Example:
        >>> known = [[480.0, 500.0, 490.0], [300.0, 320.0, 290.0]]
        >>> may_be_best([485.0], known, 3), may_be_best([310.0], known, 3), may_be_best([310.0], [], 3)
        (True, False, True)
    """
    complete = [other for other in others if len(other) >= seeds]
    spread = pooled_deviation([*others, values])
    if not complete or spread is None:
        return True
    best = max(complete, key=lambda other: (float(np.mean(other)), -len(other)))
    margin = QUANTILE * spread * math.sqrt(1 / len(values) + 1 / len(best))
    return float(np.mean(values)) + margin >= float(np.mean(best))


def pooled_deviation(trials: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation within trials; None if too few trials have several values."""
    repeated = [np.asarray(values, dtype=float) for values in trials if len(values) > 1]
    degrees = sum(len(values) - 1 for values in repeated)
    if degrees < FEW:
        return None
    return math.sqrt(sum(float(((values - values.mean()) ** 2).sum()) for values in repeated) / degrees)
