"""What a series of returns says: ratios, drawdowns, confidence intervals, and how likely it is luck. Arrays in, numbers
out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.performance.bootstrap import (
        ConfidenceInterval as ConfidenceInterval,
        SharpeDifference as SharpeDifference,
        bootstrap_interval as bootstrap_interval,
        bootstrap_intervals as bootstrap_intervals,
        sharpe_difference as sharpe_difference,
    )
    from rookery.performance.overfitting import (
        FoldOverfitting as FoldOverfitting,
        Overfitting as Overfitting,
        backtest_overfitting as backtest_overfitting,
        deflated_sharpe as deflated_sharpe,
        expected_maximum_sharpe as expected_maximum_sharpe,
        fold_overfitting as fold_overfitting,
        minimum_track_record as minimum_track_record,
        moments as moments,
        probabilistic_sharpe as probabilistic_sharpe,
    )
    from rookery.performance.periods import (
        by_period as by_period,
        monthly_returns as monthly_returns,
        returns_by_period as returns_by_period,
        summarise as summarise,
    )
    from rookery.performance.ratios import (
        Drawdown as Drawdown,
        annual_return as annual_return,
        calmar as calmar,
        drawdowns as drawdowns,
        hit_rate as hit_rate,
        longest_drawdown as longest_drawdown,
        max_drawdown as max_drawdown,
        periods_per_year as periods_per_year,
        profit_factor as profit_factor,
        sharpe as sharpe,
        simple_returns as simple_returns,
        sortino as sortino,
        total_return as total_return,
        volatility as volatility,
    )
    from rookery.performance.worth import (
        chance_of_worth as chance_of_worth,
        combined_chance as combined_chance,
        excess_moments as excess_moments,
        least_sharpe as least_sharpe,
        needed_periods as needed_periods,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
