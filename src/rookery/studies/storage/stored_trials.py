"""A study as a storage of Optuna's holds it, before rookery's attributes are read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

State = Literal["waiting", "running", "finished", "pruned", "failed"]
STATES: dict[str, State] = {
    "WAITING": "waiting",
    "RUNNING": "running",
    "COMPLETE": "finished",
    "PRUNED": "pruned",
    "FAIL": "failed",
}
MOST_BYTES = 350 << 20  # of the values of one study, in Python
# What a comma, a list and a dict of JSON take in Python, in bytes: 3 characters may become 64 bytes.
SIGNS = {",": 40, "[": 64, "{": 240}
LONGEST_DISTRIBUTION = 64 << 10  # characters
DISTRIBUTION_SECONDS = 3.0  # of computing, for all distributions: Optuna warns of every unusual choice
DAMAGED = (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, RecursionError)
FAIL_REASON, FIXED_PARAMS = "fail_reason", "fixed_params"  # system attributes of Optuna's


@dataclass(frozen=True)
class StoredTrial:
    """A trial with its attributes."""

    number: int
    state: State
    values: tuple[float, ...]
    params: Mapping[str, Any]
    distributions: Mapping[str, Any]
    attributes: Mapping[str, Any]
    fail_reason: str | None
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True)
class StoredStudy:
    """A study with all its trials, by number."""

    directions: tuple[bool, ...]  # for each objective whether it is maximised
    attributes: Mapping[str, Any]
    trials: Sequence[StoredTrial]


class StoredTexts:
    """Decodes what one reading of a study finds, until that would take too much memory or time. Errors are among
    `DAMAGED`."""

    def __init__(self) -> None:
        self._bytes, self._seconds = 0, 0.0
        self._distributions: dict[str, Any] = {}  # a study has few different ones and many trials

    def decoded(self, text: str) -> Any:
        """A value from JSON."""
        self._bytes += len(text) + sum(size * text.count(sign) for sign, size in SIGNS.items())
        if self._bytes > MOST_BYTES:
            raise ValueError(f"its values take more than {MOST_BYTES >> 20} MB")
        return json.loads(text)

    def distribution(self, text: str) -> Any:
        """The distribution of a parameter from Optuna's JSON."""
        if text not in self._distributions:
            from optuna.distributions import json_to_distribution

            if len(text) > LONGEST_DISTRIBUTION:
                raise ValueError(f"the distribution of a parameter has more than {LONGEST_DISTRIBUTION:,} characters")
            began = time.thread_time()
            self._distributions[text] = json_to_distribution(text)
            self._seconds += time.thread_time() - began
            if self._seconds > DISTRIBUTION_SECONDS:
                raise ValueError("it has too many distributions of parameters")
        return self._distributions[text]
