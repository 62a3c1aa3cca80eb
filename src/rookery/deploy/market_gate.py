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
from rookery.errors import OptionError, RookeryError
from rookery.performance.ratios import max_drawdown
from rookery.studies.report.market_overfitting import chance_of_worth, study_overfitting, trials_tried
from rookery.studies.storage.study_view import StudyView
from rookery.studies.trials.market_plan import figures_of, played, ratio
from rookery.training.backtest.backtest import world_to_test
from rookery.training.backtest.figures import date_text
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.recording import MarketView
from rookery.training.storage.run_dir import RunDir
from rookery.worlds.market.market_options import with_own_names

MARGIN = 0.1  # of the Sharpe ratio a year
CONFIDENCE = 0.95  # of the deflated Sharpe ratio
MOST_OVERFITTING = 0.5  # from here on, the best trial of one half of the bars is worse than the median in the other
DRAWDOWN_FACTOR = 1.25
SMALL_DRAWDOWN = 0.02  # so much is never too deep
# Options under which both agents must trade: the bars, and what trading costs.
SHARED_OPTIONS = (
    "data", "costs", "fee", "half_spread", "slippage", "impact", "funding", "swap_long", "swap_short", "borrow",
    "margin_call", "initial_balance",
)  # fmt: skip
SPLIT = "test"


def market_gate(
    candidate: RunDir,
    champion: RunDir | None,
    *,
    study: StudyView,
    comparisons: int,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    most_overfitting: float = MOST_OVERFITTING,
    drawdown_factor: float = DRAWDOWN_FACTOR,
) -> GateResult:
    """Whether a candidate may replace the champion, or be the first one.

    Args:
        candidate: A run of the study's best verified trial.
        champion: The run in use; None if there is none, then holding is what must be beaten.
        study: The study of the candidate, whose trials count as attempts.
        comparisons: How many comparisons were made on the last segment before this one: each is an attempt too.
        margin: By how much the Sharpe ratio a year must be above that of the champion or of holding.
        confidence: The least deflated Sharpe ratio: the probability that the candidate is better than holding.
        most_overfitting: The largest probability of backtest overfitting of the study. A larger one is accepted only if
            the best trials of some bars never lost to holding on the others.
        drawdown_factor: How many times the champion's (or holding's) largest drawdown its own may be.
    """
    if comparisons < 0:
        raise OptionError(f"comparisons = {comparisons}: give how many were made before, at least 0")
    segment = last_segment(candidate)
    account, facts = played(candidate, "test")
    found = figures_of(account, facts)
    name, other = "holding", _figures(account, "hold", facts.periods_per_year)
    accounts = {"candidate": account}
    if champion is not None:
        rival, rival_facts = played(champion, [[segment.start, segment.end + 1]], _shared_options(candidate))
        name, other = "the champion", _figures(rival, "agent", rival_facts.periods_per_year)
        accounts["champion"] = rival
    mine = _figures(account, "agent", facts.periods_per_year)
    conditions = [
        _unseen(candidate, segment),
        _margin(mine["sharpe"], other["sharpe"], margin, name),
        _luck(found, trials_tried(study), comparisons, confidence),
        _overfitting(study, most_overfitting),
        _drawdown(mine["max_drawdown"], other["max_drawdown"], drawdown_factor, name),
    ]
    figures: dict[str, Any] = {
        "segment": {"key": segment.key, "start": segment.start, "end": segment.end, "bars": segment.bars},
        "candidate": mine,
        "hold": _figures(account, "hold", facts.periods_per_year),
        "champion": None if champion is None else {**other, "seen_bars": _seen_before(champion, segment)},
        "trials": trials_tried(study),
        "comparisons": comparisons,
        "conditions": [passed for passed, _, _ in conditions],
    }
    for _, _, more in conditions:
        figures |= more
    reasons = tuple(text for _, text, _ in conditions)
    return GateResult(all(figures["conditions"]), reasons, figures, accounts)


Condition = tuple[bool, str, dict[str, Any]]  # whether it holds, a sentence, and figures


def _seen_before(champion: RunDir, segment: LastSegment) -> int | None:
    """How many bars of the segment the champion has trained on, which is to its advantage; None if its own bars are not
    there any more."""
    try:
        return seen_bars(champion, segment)
    except RookeryError:
        return None


def _unseen(candidate: RunDir, segment: LastSegment) -> Condition:
    seen = seen_bars(candidate, segment)
    text = f"compared on the last segment, {segment.text}"
    return seen == 0, f"{text}: the candidate has seen {seen or 'none'} of them", {"seen_bars": seen}


def _margin(mine: float, other: float, margin: float, name: str) -> Condition:
    passed = mine - other >= margin
    text = f"Sharpe ratio {mine:.2f} a year against {other:.2f} of {name}: a difference of {mine - other:.2f}, "
    return passed, f"{text}{'at least' if passed else 'below'} the margin of {margin:g}", {"margin": margin}


def _luck(found: Mapping[str, float], trials: int, comparisons: int, confidence: float) -> Condition:
    chance = chance_of_worth(found, trials + comparisons)
    text = f"deflated Sharpe ratio {chance:.3f} after {trials:,} trials and {comparisons:,} earlier comparisons"
    passed = chance >= confidence
    return passed, f"{text}, {'at least' if passed else 'below'} {confidence:g}", {"deflated_sharpe": chance}


def _overfitting(study: StudyView, most: float) -> Condition:
    found = study_overfitting(study)
    if found is None:
        several = sum(trial.state == "finished" for trial in study.trials) > 1
        why = "its trials have no values by fold" if several else "one trial alone was not chosen"
        return not several, f"probability of backtest overfitting unknown: {why}", {"overfitting_probability": None}
    text = f"probability of backtest overfitting {found.probability:.2f} over {found.trials} trials"
    figures = {"overfitting_probability": found.probability, "loss_probability": found.loss}
    if found.probability <= most:
        return True, f"{text}, at most {most:g}", figures
    if found.loss == 0:  # trials that are all good differ by luck alone, and any of them may be taken
        return True, f"{text}, above {most:g}, but its best trials never lost to holding on other bars", figures
    return False, f"{text}, above {most:g}", figures


def _drawdown(mine: float, other: float, factor: float, name: str) -> Condition:
    limit = max(factor * other, SMALL_DRAWDOWN)
    text = f"largest drawdown {100 * mine:.1f} % against {100 * other:.1f} % of {name}"
    passed = mine <= limit
    return passed, f"{text}, {'at most' if passed else 'above'} the limit of {100 * limit:.1f} %", {}


def _figures(account: JoinedAccount, strategy: str, periods_per_year: float) -> dict[str, float]:
    equity = account.equity[strategy]
    return {
        "sharpe": ratio(account.returns(strategy), periods_per_year),
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
