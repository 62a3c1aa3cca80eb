"""Drawdowns: how far and for how long the equity was below its peak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rookery.errors import OptionError


@dataclass(frozen=True)
class Drawdown:
    """A fall from a peak.

    Attributes:
        depth: The largest loss since the peak, as a part of it; 0 if the equity never fell.
        peak: The row of the peak.
        bottom: The row of the largest loss.
        recovered: The first row after it at or above the peak; None if there is none.
        length: The rows from the peak to the recovery, or to the end of the series.
    """

    depth: float
    peak: int
    bottom: int
    recovered: int | None
    length: int


def drawdowns(equity: np.ndarray) -> np.ndarray:
    """The loss since the highest value so far, as a part of it, for each row.

    >>> drawdowns(np.array([100.0, 80.0, 120.0, 90.0]))
    array([0.  , 0.2 , 0.  , 0.25])
    """
    values = np.asarray(equity, np.float64)
    if values.shape[-1] < 1 or not np.isfinite(values).all() or not (values[..., 0] > 0).all():
        raise OptionError("the equity must be finite, and above 0 in its first row")
    return 1 - values / np.maximum.accumulate(values, axis=-1)


def max_drawdown(equity: np.ndarray) -> Drawdown:
    """The deepest drawdown; the first one, if several are equally deep.

    >>> max_drawdown(np.array([100.0, 80.0, 90.0, 100.0, 95.0]))
    Drawdown(depth=0.2, peak=0, bottom=1, recovered=3, length=3)
    """
    falls = drawdowns(equity)
    bottom = int(falls.argmax())
    peak = int(np.flatnonzero(falls[: bottom + 1] == 0)[-1])
    later = np.flatnonzero(falls[bottom:] == 0)
    recovered = bottom + int(later[0]) if len(later) else None
    end = len(falls) - 1 if recovered is None else recovered
    return Drawdown(round(float(falls[bottom]), 15), peak, bottom, recovered, end - peak)


def longest_drawdown(equity: np.ndarray) -> int:
    """The most rows from a peak to its recovery, or to the end of the series.

    >>> longest_drawdown(np.array([100.0, 80.0, 90.0, 100.0, 95.0]))
    3
    """
    falls = drawdowns(equity)
    at_peak = np.flatnonzero(falls == 0)
    ends = np.append(at_peak[1:], len(falls) - 1)
    under = ends - at_peak > np.append(np.ones(len(at_peak) - 1), 0)  # the next row is below the peak
    return int((ends - at_peak)[under].max(initial=0))
