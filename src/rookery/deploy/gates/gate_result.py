"""What a gate answers: whether a challenger may become the champion, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rookery.training.backtest.joined_account import JoinedAccount


@dataclass(frozen=True)
class GateResult:
    """The decision of a gate. `reasons` are sentences for people, one per condition; `figures` can be written as JSON;
    `accounts` are those that were compared, of a market: of the "candidate" and of the "champion".

    >>> GateResult(False, ("its mean return is not higher",), {"difference": -1.5}).as_json()["passed"]
    False
    """

    passed: bool
    reasons: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    accounts: Mapping[str, JoinedAccount] = field(default_factory=dict, repr=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        return {"passed": self.passed, "reasons": list(self.reasons), "figures": self.figures}
