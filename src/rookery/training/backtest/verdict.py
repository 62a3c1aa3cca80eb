"""What a report says first, in sentences: whether the agent beats holding, and what limits the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.training.backtest.calendar_periods import DAY, date_text
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.records import MarketFacts, WindowRecord

SIGNIFICANT = 0.05
FEW_BARS = 100
SHORT = 90  # days


def verdict(report: Mapping[str, Any]) -> str:
    """One sentence: whether the Sharpe ratio after costs is above that of buying and holding, and how sure that is."""
    return f"Beats hold after costs: {_answer(report)}."


def _answer(report: Mapping[str, Any]) -> str:
    agent, hold, p = report["agent"], report["hold"], report["certainty"]["p_value"]
    against = f"return {percent(agent['total_return'])} against {percent(hold['total_return'])}"
    if agent["final_equity"] <= 0:
        return f"no, the account was lost ({against})"
    if agent["trades"] == 0 and agent["exposure"] == 0:
        return f"no, the agent made no trade ({against})"
    if agent["sharpe"] is None or hold["sharpe"] is None or p is None:
        return f"not significant, there are too few bars to tell ({against})"
    ratios = f"Sharpe ratio {agent['sharpe']:.2f} against {hold['sharpe']:.2f}, p = {p:.3g}; {against}"
    if agent["sharpe"] <= hold["sharpe"]:
        return f"no ({ratios})"
    if p >= SIGNIFICANT:
        return f"not significant ({ratios})"
    return f"yes ({ratios})"


def notes(account: JoinedAccount, market: MarketFacts, records: Sequence[WindowRecord]) -> list[str]:
    """What a reader has to know to believe the right things."""
    found = []
    if market.synthetic:
        found.append("The data are synthetic: the result says nothing about a real market.")
    if market.costs_name == "none":
        found.append("Trading costs nothing here: no real account has this.")
    lost = np.flatnonzero(account.equity["agent"] <= 0)
    if len(lost):
        found.append(f"The account was lost on {date_text(account.times[lost[0]])}.")
    elif any(record.ruined for record in records):
        ends = [record.times[-1] for record in records if record.ruined]
        found.append(f"An account could not go on, first on {date_text(min(ends))}: its window ends there.")
    days = float(account.times[-1] - account.times[0]) / DAY
    if days < SHORT and len(account) >= FEW_BARS:
        found.append(f"The bars cover {days:.3g} days: ratios a year say what a year like these days would be.")
    if len(account) < FEW_BARS:
        bars = "is only 1 bar" if len(account) == 1 else f"are only {len(account)} bars"
        found.append(f"There {bars}: the figures say little.")
    if account.accounts > 1:
        found.append(f"{account.accounts} accounts of equal size, one per symbol, are added.")
    elif len(records) > 1:
        found.append(
            f"{len(records)} windows follow each other: each begins in cash with what the one before it ended with."
        )
    return [*found, *market.notes]


def percent(part: float | None, digits: int = 1) -> str:
    """
    >>> percent(0.1234), percent(-0.5, 0), percent(None)
    ('+12.3 %', '-50 %', '-')
    """
    return "-" if part is None else f"{100 * part:+.{digits}f} %"
