"""The conditions of the market gate, from returns and figures alone: nothing is played here.

What speaks for a candidate is what it earned beyond its share of holding. The last segment has chosen nothing, so it is
deflated by the comparisons made on it; the folds of the study have chosen the candidate, so they are deflated by all
trials. Both are separate bars, and are combined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rookery.performance.bootstrap import sharpe_difference
from rookery.performance.overfitting import FoldOverfitting
from rookery.performance.ratios import max_drawdown
from rookery.performance.worth import (
    CONFIDENCE,
    annual_sharpe,
    chance_of_worth,
    combined_chance,
    excess_moments,
    least_sharpe,
)

Condition = tuple[bool, str, dict[str, Any]]  # whether it holds, a sentence, and figures


@dataclass(frozen=True)
class Limits:
    """What a candidate has to reach.

    Attributes:
        margin: By how much the Sharpe ratio a year must be above that of holding, and of the champion.
        confidence: The least chance that the candidate is better than holding, and better than the champion.
        last_confidence: The least chance that it is better than holding on the last segment alone.
        most_overfitting: The largest probability of backtest overfitting of the study.
        most_loss: A larger one is accepted if the best trials of some bars lost to holding on the others at most so
            often: trials that are all good differ by luck alone, and any of them may be taken.
        drawdown_factor: How many times the other's largest drawdown its own may be.
        small_drawdown: So much is never too deep.
    """

    margin: float = 0.0
    confidence: float = CONFIDENCE
    last_confidence: float = 0.8
    most_overfitting: float = 0.5
    most_loss: float = 0.05
    drawdown_factor: float = 1.25
    small_drawdown: float = 0.02

    def with_margin(self, margin: float | None) -> Limits:
        return self if margin is None else replace(self, margin=margin)


@dataclass(frozen=True)
class StudyEvidence:
    """What a study says about the candidate that it has chosen.

    Attributes:
        trials: How many settings were looked at.
        folds: Moments of what the candidate's setting earned beyond holding in its folds; None if not recorded.
        overfitting: Of the study; None if it is unknown.
        chosen: Whether the candidate was chosen among several trials.
    """

    trials: int = 1
    folds: dict[str, float] | None = None
    overfitting: FoldOverfitting | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Compared:
    """The returns of each bar of the last segment: of the candidate, of holding, and of the champion, if there is one.
    `comparisons` were made on these bars before."""

    candidate: np.ndarray
    hold: np.ndarray
    champion: np.ndarray | None
    periods_per_year: float
    comparisons: int = 0

    @property
    def attempts(self) -> int:
        return self.comparisons + 1


def market_conditions(found: Compared, study: StudyEvidence, limits: Limits) -> list[Condition]:
    """All conditions on returns, in the order in which they are reported."""
    return [
        better_than_hold(found, limits),
        *([] if found.champion is None else [better_than_champion(found, found.champion, limits)]),
        beyond_drift(found, limits),
        beyond_luck(found, study, limits),
        not_overfitted(study, limits),
        no_deep_drawdown(found, limits),
    ]


def better_than_hold(found: Compared, limits: Limits) -> Condition:
    mine, hold = (annual_sharpe(each, found.periods_per_year) for each in (found.candidate, found.hold))
    passed = mine - hold > limits.margin
    text = f"Sharpe ratio {mine:.2f} a year against {hold:.2f} of holding: a difference of {mine - hold:.2f}, "
    return passed, f"{text}{'above' if passed else 'not above'} the margin of {limits.margin:g}", {}


def better_than_champion(found: Compared, champion: np.ndarray, limits: Limits) -> Condition:
    """By the test of Ledoit and Wolf on the same bars. Of several comparisons one is lucky, so each must be less likely
    luck."""
    tested = sharpe_difference(found.candidate, champion)
    difference = tested.difference * math.sqrt(found.periods_per_year)
    luck = 1 - limits.confidence ** (1 / found.attempts)
    passed = tested.p_value <= luck and difference > limits.margin
    text = (
        f"Sharpe ratio a year higher by {difference:.2f} than that of the champion on the same bars (margin "
        f"{limits.margin:g}): p-value {tested.p_value:.3f}, {'at most' if passed else 'not at most'} {luck:.3g}"
    )
    return passed, text, {"champion_difference": difference, "champion_p_value": tested.p_value}


def beyond_drift(found: Compared, limits: Limits) -> Condition:
    """An agent that is merely less invested is better than holding in a falling market, and worth nothing."""
    excess = excess_moments(found.candidate, found.hold)
    chance = chance_of_worth(excess, found.attempts)
    ratio = excess["sharpe_per_bar"] * math.sqrt(found.periods_per_year)
    passed = chance >= limits.last_confidence
    text = (
        f"beyond its share of the market's drift, a Sharpe ratio of {ratio:.2f} a year on the last segment: chance "
        f"{chance:.3f} of being better after {found.comparisons:,} earlier comparisons, "
        f"{'at least' if passed else 'below'} {limits.last_confidence:g}"
    )
    return passed, text, {"excess_sharpe": ratio, "last_segment_chance": chance}


def beyond_luck(found: Compared, study: StudyEvidence, limits: Limits) -> Condition:
    last = excess_moments(found.candidate, found.hold)
    evidence = [(last, found.attempts)]
    if study.folds is not None:
        evidence.append((study.folds, max(study.trials, 1)))
    chances = [chance_of_worth(moments, attempts) for moments, attempts in evidence]
    chance = combined_chance(*chances)
    lengths = [(max(moments["observations"], 2), attempts) for moments, attempts in evidence]
    least = least_sharpe(*lengths, confidence=limits.confidence) * math.sqrt(found.periods_per_year)
    passed = chance >= limits.confidence
    folds = f", with {chances[1]:.3f} on the folds after {study.trials:,} trials" if study.folds is not None else ""
    text = (
        f"deflated Sharpe ratio {chance:.3f}{folds}, {'at least' if passed else 'below'} {limits.confidence:g}; these "
        f"bars can show a Sharpe ratio beyond holding of {least:.2f} a year"
    )
    figures = {"deflated_sharpe": chance, "least_sharpe": least}
    return passed, text, figures | ({"fold_chance": chances[1]} if study.folds is not None else {})


def not_overfitted(study: StudyEvidence, limits: Limits) -> Condition:
    found = study.overfitting
    if found is None:
        why = "its trials have no values by fold" if study.chosen else "one trial alone was not chosen"
        return (
            not study.chosen,
            f"probability of backtest overfitting unknown: {why}",
            {"overfitting_probability": None},
        )
    text = f"probability of backtest overfitting {found.probability:.2f} over {found.trials} trials"
    figures = {"overfitting_probability": found.probability, "loss_probability": found.loss}
    if found.probability <= limits.most_overfitting:
        return True, f"{text}, at most {limits.most_overfitting:g}", figures
    if found.loss <= limits.most_loss:
        return True, f"{text}, but its best trials lost to holding on {100 * found.loss:.0f} % of other bars", figures
    return False, f"{text}, above {limits.most_overfitting:g}", figures


def no_deep_drawdown(found: Compared, limits: Limits) -> Condition:
    name, other = ("holding", found.hold) if found.champion is None else ("the champion", found.champion)
    mine, theirs = drawdown(found.candidate), drawdown(other)
    limit = max(limits.drawdown_factor * theirs, limits.small_drawdown)
    text = f"largest drawdown {100 * mine:.1f} % against {100 * theirs:.1f} % of {name}"
    passed = mine <= limit
    return passed, f"{text}, {'at most' if passed else 'above'} the limit of {100 * limit:.1f} %", {}


def drawdown(returns: np.ndarray) -> float:
    """The depth of the largest drawdown."""
    return max_drawdown(np.concatenate([[1.0], np.cumprod(1 + returns)])).depth
