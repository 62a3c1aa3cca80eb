"""The scalar infos of the last steps of episodes, from when the episodes end until they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

SCALARS = (bool, int, float, str, np.bool_, np.integer, np.floating)


class FinalInfos:
    """Collects infos step by step, and gives them back episode by episode."""

    def __init__(self) -> None:
        self._steps: list[tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]] = []

    def add(self, rows: slice, infos: Mapping[str, Any]) -> None:
        """Keep the scalars of a step's `final_info`. `rows` are the envs that made the step."""
        final = infos["final_info"]
        if not final:
            return
        ended = np.flatnonzero(infos["_final_info"])
        columns = {
            name: (column[ended], final[f"_{name}"][ended])
            for name, column in final.items()
            if isinstance(column, np.ndarray) and column.ndim == 1 and f"_{name}" in final and _is_scalar(column, ended)
        }
        if columns:
            self._steps.append((ended + rows.start, columns))

    def take(self, finished: np.ndarray) -> list[dict[str, Any]] | None:
        """The infos of each of these records of `finished_episodes()`, which are in the order of the steps; None if
        there are none at all. Nothing is kept for later."""
        steps, self._steps = self._steps, []
        if not steps:
            return None
        envs = np.concatenate([envs for envs, _ in steps])
        kept = chain.from_iterable(_rows(len(envs), columns) for envs, columns in steps)
        if np.array_equal(envs[: len(finished)], finished["env"]):
            return [row for row, _ in zip(kept, finished, strict=False)]
        return _matched(envs.tolist(), list(kept), finished["env"].tolist())


def _is_scalar(column: np.ndarray, ended: np.ndarray) -> bool:
    """Whether a column holds numbers or texts: of objects the first one decides, the others are looked at later."""
    if column.dtype != object:
        return column.dtype.kind in "biufU"
    return any(isinstance(column[at], SCALARS) for at in ended[:1])


def _rows(count: int, columns: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, (values, present) in columns.items():
        for row, value, known in zip(rows, values.tolist(), present.tolist(), strict=True):
            if known and isinstance(value, SCALARS):
                row[name] = value.item() if isinstance(value, np.generic) else value
    return rows


def _matched(envs: list[int], rows: list[dict[str, Any]], wanted: list[int]) -> list[dict[str, Any]]:
    """Rows of the wanted envs, in order. Some episodes have no infos, others were lost with their worker."""
    found: list[dict[str, Any]] = []
    at = 0
    for env in wanted:
        try:
            at = envs.index(env, at) + 1
            found.append(rows[at - 1])
        except ValueError:
            found.append({})
    return found
