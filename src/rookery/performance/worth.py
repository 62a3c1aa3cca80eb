"""Whether an account is worth more than holding: what it earned beyond its share of the market, and how likely that is
luck. Evidence from bars that chose the account and from bars that did not is deflated separately, then combined.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rookery.errors import OptionError
from rookery.performance.overfitting import (
    NORMAL,
    deflated_sharpe,
    expected_maximum_sharpe,
    minimum_track_record,
    moments,
)
from rookery.performance.ratios import sharpe

CONFIDENCE = 0.97  # that a promoted account is better than holding: noise then passes clearly below 5 %
FEWEST_BARS = 10
SUREST = 1 - 1e-12  # a chance of 1 would outweigh everything else


def annual_sharpe(returns: np.ndarray, periods_per_year: float) -> float:
    """A Sharpe ratio a year; 0 of an account that never changed or has fewer than two bars."""
    return float(sharpe(returns, periods_per_year)) if len(returns) > 1 else 0.0


def beyond(returns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What an account earned beyond its share of another one, such as holding: the returns less the regression's beta
    times the others'. An account that is only less invested earns nothing here, in a falling market too.

    >>> bool(np.abs(beyond(np.array([0.01, -0.02, 0.03]), np.array([0.02, -0.04, 0.06]))).max() < 1e-12)
    True
    """
    centred = others - others.mean()
    spread = float(centred @ centred)
    return returns.copy() if spread == 0.0 else returns - others * (float(centred @ returns) / spread)


def excess_moments(returns: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """Moments of what an account earned beyond another, by the names that `deflated_sharpe` takes, but for the Sharpe
    ratio: that one is called `sharpe_per_bar`. What is left of equal accounts is rounding, and counts as nothing."""
    excess = beyond(returns, others)
    if np.abs(excess).max(initial=0.0) <= 1e-12 * np.abs(returns).max(initial=0.0):
        excess = np.zeros_like(excess)
    found = moments(excess)
    return {"sharpe_per_bar": found.pop("sharpe"), **found}


def chance_of_worth(figures: Mapping[str, float], attempts: int) -> float:
    """The deflated Sharpe ratio: how likely an account is better than holding, if it is the best of so many attempts.

    Attempts that are worth nothing differ by chance alone, by a variance of 1 / (bars - 1). The spread of a study's
    values is not a measure of that: its settings differ in what they are worth too.

    Args:
        figures: `sharpe_per_bar`, `observations`, `skewness` and `kurtosis` of what it earned beyond holding.
        attempts: How many settings or accounts were compared on these bars.

    >>> account = {"sharpe_per_bar": 0.1, "observations": 1000, "skewness": 0.0, "kurtosis": 3.0}
    >>> round(chance_of_worth(account, 1), 3), round(chance_of_worth(account, 500), 3)
    (0.999, 0.543)
    """
    bars = figures["observations"]
    if bars < FEWEST_BARS:
        return 0.0
    ratio, skewness, kurtosis = (figures[name] for name in ("sharpe_per_bar", "skewness", "kurtosis"))
    return deflated_sharpe(ratio, bars, max(attempts, 1), 1 / (bars - 1), skewness, kurtosis)


def needed_periods(figures: Mapping[str, float], attempts: int = 1, confidence: float = 0.95) -> float:
    """How many bars would give `chance_of_worth` this confidence, if the account continues with the same ratio;
    infinite if it earned nothing.

    >>> account = {"sharpe_per_bar": 0.1, "observations": 1000, "skewness": 0.0, "kurtosis": 3.0}
    >>> round(needed_periods(account)), round(needed_periods(account, attempts=500))
    (273, 2211)
    """
    ratio, skewness, kurtosis = (figures[name] for name in ("sharpe_per_bar", "skewness", "kurtosis"))
    if ratio <= 0:
        return math.inf
    alone = math.sqrt(minimum_track_record(ratio, 0.0, skewness, kurtosis, confidence) - 1)
    return 1 + (alone + expected_maximum_sharpe(max(attempts, 1), 1.0) / ratio) ** 2


def combined_chance(*chances: float) -> float:
    """The chance that follows from the chances of separate bars (Stouffer's method, with equal weights).

    >>> round(combined_chance(0.9, 0.9), 3), round(combined_chance(0.9), 3)
    (0.965, 0.9)
    """
    sure = [NORMAL.inv_cdf(min(max(chance, 1 - SUREST), SUREST)) for chance in chances]
    return NORMAL.cdf(sum(sure) / math.sqrt(len(sure)))


def least_sharpe(*evidence: tuple[float, int], confidence: float = CONFIDENCE) -> float:
    """The Sharpe ratio per period that an account must show to be worth something with this confidence.

    Args:
        evidence: For each separate stretch, how many periods it has and how many attempts are compared on it.
        confidence: The least combined chance.

    >>> a_year = 365 * 24
    >>> round(least_sharpe((0.15 * a_year, 1)) * a_year**0.5, 1)   # the last segment of one year of hourly bars
    4.9
    >>> folds_and_last = (0.85 * 5 * a_year, 500), (0.15 * 5 * a_year, 1)
    >>> round(least_sharpe(*folds_and_last) * a_year**0.5, 1)      # five years and 500 trials
    2.0
    """
    if not evidence or any(periods < 2 or attempts < 1 for periods, attempts in evidence) or not 0 < confidence < 1:
        raise OptionError(
            f"evidence={evidence!r}, confidence={confidence!r}: give at least 2 periods and 1 attempt each, and a "
            "confidence between 0 and 1"
        )
    needed = math.sqrt(len(evidence)) * NORMAL.inv_cdf(confidence)
    luck = sum(expected_maximum_sharpe(attempts, 1.0) for _, attempts in evidence)
    return (needed + luck) / sum(math.sqrt(periods - 1) for periods, _ in evidence)
