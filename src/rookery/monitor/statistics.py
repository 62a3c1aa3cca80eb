"""Statistics over the seeds of one configuration: interquartile mean and bootstrap intervals, as rliable defines them
(Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95
RESAMPLES = 50_000  # of single numbers; curves take fewer
CURVE_RESAMPLES = 2_000
STUDENT = (np.inf, 12.7062, 4.3027, 3.1824, 2.7764, 2.5706)  # quantiles for few degrees of freedom


def interquartile_mean(values: ArrayLike) -> np.ndarray:
    """The mean over the first axis without the lowest and the highest quarter, each rounded down.

    >>> float(interquartile_mean([1, 2, 3, 4, 100]))
    3.0
    """
    ordered = np.sort(np.asarray(values, dtype=float), axis=0)
    cut = len(ordered) // 4
    return ordered[cut : len(ordered) - cut].mean(axis=0)


def bootstrap_interval(
    values: ArrayLike, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper end of the interval of the interquartile mean, by the percentile bootstrap.

    Args:
        values: One row per run; a row is a number, or the points of a curve. A run is drawn as a whole.
        confidence: The share of bootstrap means between the two ends.
        seed: The same seed and values give the same interval.

    Example:
        >>> low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0])
        >>> float(low), float(high)
        (1.0, 4.0)
    """
    rows = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(rows), size=(resamples, len(rows)))
    means = interquartile_mean(np.moveaxis(rows[drawn], 1, 0))
    low, high = np.percentile(means, [50 * (1 - confidence), 50 * (1 + confidence)], axis=0)
    return low, high


def mean_interval(mean: float, std: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a mean over `count` episodes, by Student's t distribution; `std` is their standard deviation
    (divided by `count`, as NumPy does). A single episode says nothing about the spread: both ends are its return.

    >>> [round(end, 2) for end in mean_interval(10.0, 2.0, 17)]
    [8.94, 11.06]
    """
    half = student_quantile(count - 1) * std / np.sqrt(count - 1) if count > 1 else 0.0
    return float(mean - half), float(mean + half)


def student_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution, to within 0.2 %.

    >>> [round(student_quantile(degrees), 2) for degrees in (1, 5, 9, 39, 10_000)]
    [12.71, 2.57, 2.26, 2.02, 1.96]
    """
    if degrees < len(STUDENT):
        return STUDENT[degrees]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
