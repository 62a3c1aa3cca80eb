"""Confidence intervals of returns that depend on each other: blocks of them are drawn, not single ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.performance.ratios import NO_SPREAD

LEAST = 20  # returns, below which no interval is worth its name
CHUNK = 2_000_000  # drawn values at a time


@dataclass(frozen=True)
class ConfidenceInterval:
    """A confidence interval.

    Attributes:
        value: The figure of the returns themselves.
        low: The lower end.
        high: The upper end.
        level: How often such an interval contains the true value, such as 0.95.
        block: The mean length of the drawn blocks.
        samples: How many series were drawn.
    """

    value: float
    low: float
    high: float
    level: float
    block: float
    samples: int


def bootstrap_interval(
    returns: np.ndarray,
    statistic: Callable[[np.ndarray], Any],
    level: float = 0.95,
    samples: int = 2000,
    block: float | None = None,
    seed: int = 0,
) -> ConfidenceInterval:
    """The percentile interval of a statistic by the stationary bootstrap (Politis and Romano 1994).

    Args:
        returns: One series.
        statistic: From an array (series, periods) to one value per series, such as `sharpe` or `total_return`.
        level: The confidence level.
        samples: How many series to draw.
        block: The mean length of a block. If omitted, `block_length(returns)`.
        seed: The same seed gives the same interval.

    >>> from rookery.performance.ratios import sharpe
    >>> returns = np.random.default_rng(1).normal(0.1, 1, 500)
    >>> found = bootstrap_interval(returns, sharpe)
    >>> found.low < found.value < found.high
    True
    """
    return bootstrap_intervals(returns, {"": statistic}, level, samples, block, seed)[""]


def bootstrap_intervals(
    returns: np.ndarray,
    statistics: Mapping[str, Callable[[np.ndarray], Any]],
    level: float = 0.95,
    samples: int = 2000,
    block: float | None = None,
    seed: int = 0,
) -> dict[str, ConfidenceInterval]:
    """The intervals of several statistics by name, from the same draws: see `bootstrap_interval`."""
    values = _checked(returns)
    if not 0 < level < 1 or samples < 1:
        raise OptionError(f"level={level!r}, samples={samples!r}: give a level between 0 and 1, and at least 1 sample")
    length = block_length(values) if block is None else float(block)
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in statistics}
    for rows in stationary_rows(len(values), length, samples, seed):
        series = values[rows]
        for name, statistic in statistics.items():
            drawn[name].append(statistic(series))
    ends = [(1 - level) / 2, (1 + level) / 2]
    found = {}
    for name, statistic in statistics.items():
        low, high = np.quantile(np.concatenate(drawn[name]), ends, method="inverted_cdf")  # may be infinite
        found[name] = ConfidenceInterval(float(statistic(values)), float(low), float(high), level, length, samples)
    return found


def stationary_rows(count: int, block: float, samples: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Rows of resampled series, in chunks (some, count): blocks of random length from random rows, in a circle."""
    if block < 1:
        raise OptionError(f"block={block!r}: a block has at least 1 row")
    rng = np.random.default_rng(seed)
    for start in range(0, samples, most := max(1, CHUNK // count)):
        series = min(most, samples - start)
        yield _block_rows(rng, count, block, series).reshape(series, count)


def _block_rows(rng: np.random.Generator, count: int, block: float, series: int) -> np.ndarray:
    """One series after another. A new block begins by chance, and with each series, so it is never longer than one."""
    total = series * count
    flags = rng.random(total, np.float32) < 1 / block
    flags[::count] = True
    begins = np.flatnonzero(flags)
    first = rng.integers(count, size=len(begins)) - begins
    rows = np.repeat(first, np.diff(begins, append=total)) + np.arange(total)
    rows[rows >= count] -= count
    return rows


def block_length(values: np.ndarray, circular: bool = False) -> float:
    """The length of blocks that suits the dependence of a series: Politis and White (2004), Patton and others (2009).

    It is 1 for independent values, and long if values resemble those before them. `circular` gives the length for
    blocks of equal length.
    """
    series = np.asarray(values, np.float64)
    count = len(series)
    centred = series - series.mean()
    run = max(5, int(np.log10(count)))  # so many insignificant autocorrelations in a row end the search
    lags = min(count - 1, int(np.ceil(np.sqrt(count))) + run)
    spectrum = np.abs(np.fft.rfft(centred, 2 * count)) ** 2
    covariance = np.fft.irfft(spectrum, 2 * count)[: lags + 1] / count
    if covariance[0] <= NO_SPREAD * np.square(series).mean():
        return 1.0
    insignificant = np.abs(covariance[1:] / covariance[0]) < 2 * np.sqrt(np.log10(count) / count)
    width = min(lags, 2 * max(1, _last_significant(insignificant, run)))
    weights = np.minimum(1, 2 * (1 - np.arange(width + 1) / width))
    variance = covariance[0] + 2 * (weights[1:] * covariance[1 : width + 1]).sum()
    slope = 2 * (weights * np.arange(width + 1) * covariance[: width + 1]).sum()
    scale = (4 / 3 if circular else 2) * variance**2
    longest = np.ceil(min(3 * np.sqrt(count), count / 3))
    return float(np.clip((2 * slope**2 / scale * count) ** (1 / 3) if scale > 0 else longest, 1, longest))


def _last_significant(insignificant: np.ndarray, run: int) -> int:
    """The lag before the first `run` insignificant ones in a row; else the last significant one."""
    windows = np.lib.stride_tricks.sliding_window_view(insignificant, min(run, len(insignificant))).all(axis=1)
    return int(windows.argmax()) if windows.any() else int(np.flatnonzero(~insignificant)[-1]) + 1


def _checked(returns: np.ndarray) -> np.ndarray:
    values = np.asarray(returns, np.float64)
    if values.ndim != 1 or len(values) < LEAST or not np.isfinite(values).all():
        raise OptionError(f"a bootstrap needs one series of at least {LEAST} finite returns; it got {values.shape}")
    return values
