"""The numbers in the infos of episodes' last steps, such as the equity of an account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rookery.training.evaluation.win_record import RATES

MOST_NUMBERS, LONGEST_NAME = 24, 64  # of a run; the rest is left out or cut
PREFIX = "info/"  # of these metrics
RESTARTED = "restarted"  # the engine's own info of episodes that a failure cut short, 1 wherever it is: runs count them


def final_numbers(final: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The finite numbers of episodes that ended in one step, by name, from a step's `final_info`. Infos that
    `outcomes_of` turns into metrics, and those of the engine itself, are left out.

    >>> final = {"equity": np.array([5.0, 0.0, np.nan]), "_equity": np.array([True, False, True])}
    >>> final_numbers(final, {})
    {'equity': array([5.])}
    """
    found = {}
    for name, column in _columns(final, metadata):
        values = _numbers(column[np.asarray(final[f"_{name}"], bool)])
        if len(values):
            found[name[:LONGEST_NAME]] = values
    return found


def final_numbers_of_row(infos: Mapping[str, Any], row: int, metadata: Mapping[str, Any]) -> dict[str, float]:
    """The same of one row, as metrics, from the infos of an episode's last step.

    >>> final_numbers_of_row({"equity": np.array([5.0, 6.0]), "_equity": np.array([True, True])}, 1, {})
    {'info/equity': 6.0}
    """
    found: dict[str, float] = {}
    for name, column in _columns(infos, metadata):
        if infos[f"_{name}"][row] and len(found) < MOST_NUMBERS:
            found |= {PREFIX + name[:LONGEST_NAME]: float(x) for x in _numbers(column[row : row + 1])}
    return found


def _columns(infos: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    named = (*RATES, *metadata.get("outcomes", ()), RESTARTED)
    for name, column in infos.items():
        if isinstance(column, np.ndarray) and column.ndim == 1 and f"_{name}" in infos and name not in named:
            yield name, column


def _numbers(values: np.ndarray) -> np.ndarray:
    """The finite numbers among some values; none of texts and other objects."""
    if values.dtype == object:
        kinds = (bool, int, float, np.number, np.bool_)
        values = np.array([float(x) for x in values if isinstance(x, kinds) and not isinstance(x, complex)])
    if values.dtype.kind not in "biuf":
        return np.zeros(0)
    numbers = values.astype(np.float64)
    return numbers[np.isfinite(numbers)]
