"""A study as a storage of Optuna's holds it, before rookery's attributes are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

State = Literal["waiting", "running", "finished", "pruned", "failed"]
STATES: dict[str, State] = {
    "WAITING": "waiting",
    "RUNNING": "running",
    "COMPLETE": "finished",
    "PRUNED": "pruned",
    "FAIL": "failed",
}
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


@lru_cache(maxsize=4096)
def distribution(text: str) -> Any:
    """The distribution of a parameter from Optuna's JSON. A study has few different ones and many trials."""
    from optuna.distributions import json_to_distribution

    return json_to_distribution(text)
