"""What a run of a market world is worth: its Sharpe ratio less that of holding, on bars that it was not trained on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rookery.files import replace_file
from rookery.performance.overfitting import moments
from rookery.performance.ratios import sharpe
from rookery.training.backtest.backtest import world_to_test
from rookery.training.backtest.joined_account import JoinedAccount, join
from rookery.training.backtest.recording import record_windows
from rookery.training.backtest.records import MarketFacts
from rookery.training.evaluation.evaluate_run import open_run
from rookery.training.storage.run_dir import RunDir
from rookery.worlds.market.market_options import with_own_names

FIGURES = "test_figures.json"  # in the folder of a trial's run


def played(run: RunDir, split: Any, changes: Mapping[str, Any] | None = None) -> tuple[JoinedAccount, MarketFacts]:
    """The account of a run's best checkpoint on the bars of a split, and the facts about these bars. `changes` are
    other options of the world, such as its data; None is the world's default."""
    trained = open_run(run.path, run.path.parent, best=True, trust=True)
    options = {**with_own_names(trained.config.world_options), **(changes or {})}
    kept = {name: value for name, value in options.items() if value is not None}
    world = world_to_test(trained.config.model_copy(update={"world_options": kept}), {"split": split})
    records, facts = record_windows(world, trained.agent, deterministic=trained.config.evaluation.deterministic)
    return join(records), facts


def sharpe_above_hold(run: RunDir, split: Any) -> float:
    """The Sharpe ratio a year of the run's agent less that of holding. The figures are written into the run's folder,
    for the study's overfitting figures."""
    account, facts = played(run, split)
    figures = figures_of(account, facts)
    replace_file(run.path / FIGURES, [json.dumps(figures, indent=2).encode(), b"\n"])
    return float(figures["sharpe_difference"])


def figures_of(account: JoinedAccount, facts: MarketFacts) -> dict[str, Any]:
    """Sharpe ratios a year, and the moments of what the agent earned beyond holding, per bar."""
    a_year = facts.periods_per_year
    agent, hold = (ratio(account.returns(name), a_year) for name in ("agent", "hold"))
    return {
        "sharpe": agent,
        "hold_sharpe": hold,
        "sharpe_difference": agent - hold,
        "periods_per_year": a_year,
        **excess_moments(account.returns("agent"), account.returns("hold")),
    }


def excess_moments(returns: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """Moments of what an account earned beyond another, by the names that `deflated_sharpe` takes, but for the Sharpe
    ratio: that one is called `sharpe_per_bar`."""
    found = moments(beyond(returns, others))
    return {"sharpe_per_bar": found.pop("sharpe"), **found}


def ratio(returns: np.ndarray, periods_per_year: float) -> float:
    """A Sharpe ratio a year; 0 of an account that never changed or has fewer than two bars."""
    return float(sharpe(returns, periods_per_year)) if len(returns) > 1 else 0.0


def beyond(returns: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What an account earned beyond another one that is scaled to the same volatility. The mean has the sign of the
    difference of both Sharpe ratios, so that who only takes less risk earns nothing here.

    >>> beyond(np.array([0.01, -0.02, 0.03]), np.array([0.02, -0.04, 0.06])).round(12).tolist()
    [0.0, 0.0, 0.0]
    """
    spread, other = float(returns.std()), float(others.std())
    if spread == 0.0 or other == 0.0:
        return returns.copy()
    return returns - others * (spread / other)


def read_figures(run: Path) -> dict[str, float] | None:
    """The figures in a run's folder; None if there are none."""
    try:
        found = json.loads((run / FIGURES).read_bytes())
    except (OSError, ValueError):
        return None
    numbers = isinstance(found, dict) and all(isinstance(x, (int, float)) and math.isfinite(x) for x in found.values())
    return found if numbers else None
