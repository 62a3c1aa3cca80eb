"""What a gate answers: whether a challenger may become the champion, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GateResult:
    """The decision of a gate. `reasons` are sentences for people, one per condition; `figures` can be written as JSON.

    >>> GateResult(False, ("its mean return is not higher",), {"difference": -1.5}).as_json()["passed"]
    False
    """

    passed: bool
    reasons: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"passed": self.passed, "reasons": list(self.reasons), "figures": self.figures}
