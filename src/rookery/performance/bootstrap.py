"""Certainty about returns that depend on each other: blocks of them are drawn, not single ones.

`bootstrap_interval` gives confidence intervals; `sharpe_difference` tests whether one Sharpe ratio is above another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.performance.ratios import NO_SPREAD, sharpe

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


FEWEST_BLOCKS, MOST_BLOCKS = 8, 2000  # more take time and change little


@dataclass(frozen=True)
class SharpeDifference:
    """The result of `sharpe_difference`.

    Attributes:
        difference: The Sharpe ratio of the first series less that of the second, per period.
        p_value: How likely such a difference or a larger one is if the first is not better.
        low: The lower end of a two-sided interval of the difference.
        high: Its upper end.
        level: The level of the interval.
        block: The length of the drawn blocks.
        samples: How many pairs of series were drawn.
    """

    difference: float
    p_value: float
    low: float
    high: float
    level: float
    block: int
    samples: int


def sharpe_difference(
    returns: np.ndarray,
    others: np.ndarray,
    samples: int = 4999,
    block: int | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> SharpeDifference:
    """Test whether `returns` have a higher Sharpe ratio than `others` in the same periods.

    Blocks of both series are drawn together. The difference is divided by its standard error, in the series and in
    each draw, as Ledoit and Wolf (2008) do. This holds for fat tails and for returns that depend on each other.

    Args:
        returns: The series that may be better.
        others: The series to beat, such as buy-and-hold; zeros to test whether a Sharpe ratio is above 0.
        samples: How many pairs to draw. The smallest possible p-value is 1 / (samples + 1).
        block: The length of a block. If omitted, it follows from the dependence of the returns.
        seed: The same seed gives the same result.
        level: The level of the interval.

    >>> market = np.random.default_rng(1).normal(0, 1, 500)
    >>> better = market + np.random.default_rng(2).normal(0.2, 0.5, 500)
    >>> sharpe_difference(better, market).p_value < 0.01 < sharpe_difference(market, better).p_value
    True
    """
    pair = _scaled_pair(returns, others)
    count = pair.shape[1]
    powers = np.concatenate([pair, pair**2])
    centre, gradient = _difference(powers.mean(axis=1))
    fitting = max(round(block_length(gradient @ powers, circular=True)), count // MOST_BLOCKS)
    length = min(fitting, max(1, count // FEWEST_BLOCKS)) if block is None else block
    if not 1 <= length <= count // 2 or samples < 1 or not 0 < level < 1:
        raise OptionError(
            f"block={length!r}, samples={samples!r}, level={level!r}: a block has 1 to {count // 2} rows, there is at "
            f"least 1 sample, and the level is between 0 and 1"
        )
    sums = _block_sums(powers, length)
    error = float(_error(sums[None], gradient[None], length)[0] * np.sqrt(len(sums) * length / count))
    difference = float(sharpe(pair[0]) - sharpe(pair[1]))
    if error <= NO_SPREAD:  # the series are equal, or do not vary
        return SharpeDifference(difference, 1.0, difference, difference, level, length, samples)
    drawn = _drawn(sums, float(centre), length, samples, np.random.default_rng(seed))
    p_value = (1 + int((drawn >= centre / error).sum())) / (samples + 1)
    margin = float(np.quantile(np.abs(drawn), level, method="higher")) * error
    return SharpeDifference(difference, p_value, difference - margin, difference + margin, level, length, samples)


def _difference(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The difference of the Sharpe ratios, and its derivatives, from the means (..., 4) of both series and squares.

    A series that does not vary has the Sharpe ratio 0.
    """
    first, second = means[..., :2], means[..., 2:]
    variance = second - first**2
    varies = variance > NO_SPREAD * second
    spread = np.sqrt(np.where(varies, variance, 1.0))
    signs = np.where(varies, [1.0, -1.0], 0.0)
    gradient = np.concatenate([signs * second / spread**3, -signs * first / (2 * spread**3)], axis=-1)
    return (signs * first / spread).sum(axis=-1), gradient


def _block_sums(powers: np.ndarray, length: int) -> np.ndarray:
    """The sums (rows, 4) over the block that begins at each row, in a circle."""
    count = powers.shape[1]
    total = np.cumsum(np.concatenate([np.zeros((4, 1)), powers, powers[:, :length]], axis=1), axis=1)
    return (total[:, length : length + count] - total[:, :count]).T


def _error(blocks: np.ndarray, gradient: np.ndarray, length: int) -> np.ndarray:
    """The standard error of the difference for each series of blocks (series, blocks, 4): from the spread of blocks."""
    deviations = blocks - blocks.mean(axis=1, keepdims=True)
    scores = np.einsum("sbk,sk->sb", deviations, gradient)
    return np.sqrt(np.square(scores).mean(axis=1) / blocks.shape[1]) / length


def _drawn(sums: np.ndarray, centre: float, length: int, samples: int, rng: np.random.Generator) -> np.ndarray:
    """For each draw, how many standard errors its difference is above that of the series."""
    count, found = len(sums), []
    blocks = count // length
    for start in range(0, samples, most := max(1, CHUNK // (4 * blocks))):
        chosen = sums[rng.integers(count, size=(min(most, samples - start), blocks))]
        values, gradient = _difference(chosen.mean(axis=1) / length)
        errors = _error(chosen, gradient, length)
        found.append(np.divide(values - centre, errors, where=errors > 0, out=np.full(len(values), np.inf)))
    return np.concatenate(found)


def _scaled_pair(returns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Both series, each divided by its standard deviation, which does not change a Sharpe ratio."""
    series = [np.asarray(each, np.float64) for each in (returns, others)]
    shapes = {each.shape for each in series}
    pair = np.array(series) if len(shapes) == 1 else np.zeros(0)
    if pair.ndim != 2 or pair.shape[1] < LEAST or not np.isfinite(pair).all():
        raise OptionError(f"a test needs two finite series of the same {LEAST} periods or more; it got {shapes}")
    spread = pair.std(axis=1, keepdims=True)
    return pair / np.where(spread > 0, spread, 1.0)
