"""The gate of market worlds: a candidate must be better on bars that nobody has seen, by more than luck explains.

These bars are the world's split "test": the last segment of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config import RunConfig, build_config
from rookery.deploy.gates import GateResult
from rookery.deploy.market_conditions import (
    Compared,
    Condition,
    Limits,
    StudyEvidence,
    market_conditions,
)
from rookery.errors import OptionError, RookeryError
from rookery.performance.ratios import max_drawdown
from rookery.performance.worth import annual_sharpe
from rookery.studies.report.market_overfitting import fold_figures, study_overfitting, trials_tried
from rookery.studies.storage.study_view import StudyView
from rookery.studies.trials.market_plan import played
from rookery.training.backtest.backtest import world_to_test
from rookery.training.backtest.figures import date_text
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.recording import MarketView
from rookery.training.storage.run_dir import RunDir
from rookery.worlds.market.market_options import with_own_names

# Options under which both agents must trade: the bars, and what trading costs.
SHARED_OPTIONS = (
    "data", "costs", "fee", "half_spread", "slippage", "impact", "funding", "broker", "swap_long", "swap_short",
    "borrow", "margin_call", "initial_balance",
)  # fmt: skip
SPLIT = "test"


def market_gate(
    candidate: RunDir,
    champion: RunDir | None,
    *,
    study: StudyView,
    comparisons: int,
    limits: Limits = Limits(),  # noqa: B008 -- it cannot change
) -> GateResult:
    """Whether a candidate may replace the champion, or be the first one.

    Args:
        candidate: A run of the study's best verified trial.
        champion: The run in use; None if there is none, then holding alone must be beaten.
        study: The study of the candidate. Its trials count as attempts on the bars of its folds.
        comparisons: How many comparisons were made on the last segment before this one: each is an attempt there.
        limits: What it has to reach.
    """
    if comparisons < 0:
        raise OptionError(f"comparisons = {comparisons}: give how many were made before, at least 0")
    segment = last_segment(candidate)
    account, facts = played(candidate, "test")
    accounts = {"candidate": account}
    if champion is not None:
        accounts["champion"], _ = played(champion, [[segment.start, segment.end + 1]], _shared_options(candidate))
    compared = _compared(accounts, facts.periods_per_year, comparisons)
    conditions = [_unseen(candidate, segment), *market_conditions(compared, _evidence(study), limits)]
    a_year = facts.periods_per_year
    rival = None if champion is None else _figures(accounts["champion"], "agent", a_year)
    figures: dict[str, Any] = {
        "segment": {"key": segment.key, "start": segment.start, "end": segment.end, "bars": segment.bars},
        "candidate": _figures(account, "agent", a_year),
        "hold": _figures(account, "hold", a_year),
        "champion": None if rival is None else {**rival, "seen_bars": _seen_before(champion, segment)},
        "trials": trials_tried(study),
        "comparisons": comparisons,
        "margin": limits.margin,
        "conditions": [passed for passed, _, _ in conditions],
    }
    for _, _, more in conditions:
        figures |= more
    reasons = tuple(text for _, text, _ in conditions)
    return GateResult(all(figures["conditions"]), reasons, figures, accounts)


def _compared(accounts: Mapping[str, JoinedAccount], periods_per_year: float, comparisons: int) -> Compared:
    """The returns of the accounts. Both begin at the same time, but for agents that look back further: the champion is
    compared on the bars that both have."""
    mine, rival = accounts["candidate"], accounts.get("champion")
    returns, hold = mine.returns("agent"), mine.returns("hold")
    if rival is None:
        return Compared(returns, hold, None, periods_per_year, comparisons)
    _, own, theirs = np.intersect1d(mine.times[1:], rival.times[1:], return_indices=True)
    return Compared(returns[own], hold[own], rival.returns("agent")[theirs], periods_per_year, comparisons)


def _evidence(study: StudyView) -> StudyEvidence:
    several = sum(trial.state == "finished" for trial in study.trials) > 1
    return StudyEvidence(trials_tried(study), fold_figures(study, study.chosen), study_overfitting(study), several)


def _seen_before(champion: RunDir | None, segment: LastSegment) -> int | None:
    """How many bars of the segment the champion has trained on, which is to its advantage; None if its own bars are not
    there any more."""
    try:
        return None if champion is None else seen_bars(champion, segment)
    except RookeryError:
        return None


def _unseen(candidate: RunDir, segment: LastSegment) -> Condition:
    seen = seen_bars(candidate, segment)
    text = f"compared on the last segment, {segment.text}"
    return seen == 0, f"{text}: the candidate has seen {seen or 'none'} of them", {"seen_bars": seen}


def _figures(account: JoinedAccount, strategy: str, periods_per_year: float) -> dict[str, float]:
    equity = account.equity[strategy]
    return {
        "sharpe": annual_sharpe(account.returns(strategy), periods_per_year),
        "total_return": float(equity[-1] / equity[0] - 1),
        "max_drawdown": max_drawdown(equity).depth,
    }


def _shared_options(candidate: RunDir) -> dict[str, Any]:
    """The candidate's bars and costs, for the champion: None where the candidate takes the world's default."""
    options = with_own_names(build_config(candidate.read_config()).world_options)
    return {name: options.get(name) for name in SHARED_OPTIONS}


@dataclass(frozen=True)
class LastSegment:
    """Bars by their data and their time. Comparisons on the same bars have the same `key`."""

    data_hash: str
    start: int  # when the first bar is complete: UTC seconds
    end: int  # the same of the last
    bars: int

    @property
    def key(self) -> str:
        """As the audit log records it."""
        return f"{self.data_hash}:{self.start}-{self.end}"

    @property
    def text(self) -> str:
        return f"{self.bars:,} bars from {date_text(self.start)} to {date_text(self.end)}"


def share_bars(key: str, other: str) -> bool:
    """Whether two keys are of bars at the same time. Bars that were added to a file since make another key, and most of
    the segment stays: who was compared on it was compared on these bars.

    >>> share_bars("a1:100-500", "b2:400-800"), share_bars("a1:100-500", "a1:501-800")
    (True, False)
    """
    (start, end), (other_start, other_end) = _span(key), _span(other)
    return start <= other_end and other_start <= end


def _span(key: str) -> tuple[int, int]:
    start, end = key.rpartition(":")[2].split("-")
    return int(start), int(end)


def last_segment(run: RunDir) -> LastSegment:
    """The last segment of the data that a run was trained on."""
    view = _view(build_config(run.read_config()), SPLIT)
    times = _times(view)
    return LastSegment(view.facts().fingerprint, int(times[0]), int(times[-1]), len(times))


def seen_bars(run: RunDir, segment: LastSegment) -> int:
    """How many bars of a segment a run has trained or evaluated on."""
    config = build_config(run.read_config())
    trained_on = config.world_options.get("split", "train")
    evaluated_on = config.world_options.get("evaluation_split") or (
        "validation" if trained_on == "train" else trained_on
    )
    times = np.concatenate([_times(_view(config, split)) for split in (trained_on, evaluated_on)])
    return int(np.sum((np.unique(times) >= segment.start) & (np.unique(times) <= segment.end)))


def _view(config: RunConfig, split: Any) -> MarketView:
    return MarketView(world_to_test(config, {"split": split}).kernel_world)


def _times(view: MarketView) -> np.ndarray:
    """The times of the bars in a world's windows, rising."""
    times = np.asarray(view.market.times)
    return np.unique(np.concatenate([times[first : last + 1] for first, last in view.windows]))
