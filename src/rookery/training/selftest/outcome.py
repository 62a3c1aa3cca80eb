"""What a check of the selftest says."""

from __future__ import annotations

from dataclasses import dataclass

OK, FAILED, SKIPPED = "OK", "failed", "skipped"


class CheckFailed(Exception):
    """Something is not as it should be; the message says what."""


class NotChecked(Exception):
    """The check is not possible here; the message says why."""


@dataclass(frozen=True)
class CheckOutcome:
    """The result of one check."""

    subject: str
    state: str  # OK, FAILED or SKIPPED
    text: str
    seconds: float
