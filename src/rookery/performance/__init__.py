"""What a series of returns says: ratios, drawdowns, confidence intervals, and how likely it is luck. Arrays in, numbers
out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.performance.bootstrap import (
        ConfidenceInterval,
        SharpeDifference,
        bootstrap_interval,
        bootstrap_intervals,
        sharpe_difference,
    )
    from rookery.performance.overfitting import (
        FoldOverfitting,
        Overfitting,
        backtest_overfitting,
        deflated_sharpe,
        expected_maximum_sharpe,
        fold_overfitting,
        minimum_track_record,
        moments,
        probabilistic_sharpe,
    )
    from rookery.performance.periods import by_period, monthly_returns, returns_by_period, summarise
    from rookery.performance.ratios import (
        Drawdown,
        annual_return,
        calmar,
        drawdowns,
        hit_rate,
        longest_drawdown,
        max_drawdown,
        periods_per_year,
        profit_factor,
        sharpe,
        simple_returns,
        sortino,
        total_return,
        volatility,
    )
    from rookery.performance.worth import chance_of_worth, combined_chance, excess_moments, least_sharpe, needed_periods

__all__ = [
    "ConfidenceInterval",
    "Drawdown",
    "FoldOverfitting",
    "Overfitting",
    "SharpeDifference",
    "annual_return",
    "backtest_overfitting",
    "bootstrap_interval",
    "bootstrap_intervals",
    "by_period",
    "calmar",
    "chance_of_worth",
    "combined_chance",
    "deflated_sharpe",
    "drawdowns",
    "excess_moments",
    "expected_maximum_sharpe",
    "fold_overfitting",
    "hit_rate",
    "least_sharpe",
    "longest_drawdown",
    "max_drawdown",
    "minimum_track_record",
    "moments",
    "monthly_returns",
    "needed_periods",
    "periods_per_year",
    "probabilistic_sharpe",
    "profit_factor",
    "returns_by_period",
    "sharpe",
    "sharpe_difference",
    "simple_returns",
    "sortino",
    "summarise",
    "total_return",
    "volatility",
]

__getattr__, __dir__ = lazy_names(__name__)
