"""The scalar infos of the last steps of episodes, from when the episodes end until they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

SCALARS = (bool, int, float, str, np.bool_, np.integer, np.floating)


class FinalInfos:
    """Collects infos step by step, and gives them back episode by episode. Ends without infos are kept too: of one env,
    only its order tells which episode an info belongs to."""

    def __init__(self) -> None:
        self._steps: list[tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]] = []

    def add(self, rows: slice, infos: Mapping[str, Any]) -> None:
        """Keep the scalars of a step's `final_info`. `rows` are the envs that made the step."""
        final, ended = infos["final_info"], np.flatnonzero(infos["_final_info"])
        if not len(ended):
            return
        columns = {
            name: (column[ended], final[f"_{name}"][ended])
            for name, column in final.items()
            if isinstance(column, np.ndarray)
            and column.ndim == 1
            and f"_{name}" in final
            and _is_scalar(column, final[f"_{name}"])
        }
        self._steps.append((ended + rows.start, columns))

    def take(self, finished: np.ndarray) -> list[dict[str, Any]] | None:
        """The infos of each of these records, all that `finished_episodes()` has listed since the last call; None if
        there are none at all. Nothing is kept for later."""
        steps, self._steps = self._steps, []
        if not any(columns for _, columns in steps):
            return None
        envs = np.concatenate([envs for envs, _ in steps])
        kept = chain.from_iterable(_rows(len(envs), columns) for envs, columns in steps)
        if np.array_equal(envs, finished["env"]):
            return list(kept)
        return _matched(envs.tolist(), list(kept), finished["env"].tolist())


def _is_scalar(column: np.ndarray, present: np.ndarray) -> bool:
    """Whether a column holds any number or text."""
    if column.dtype != object:
        return column.dtype.kind in "biufU"
    return any(isinstance(value, SCALARS) for value in column[present])


def _rows(count: int, columns: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, (values, present) in columns.items():
        for row, value, known in zip(rows, values.tolist(), present.tolist(), strict=True):
            if known and isinstance(value, SCALARS):
                row[name] = value.item() if isinstance(value, np.generic) else value
    return rows


def _matched(envs: list[int], rows: list[dict[str, Any]], wanted: list[int]) -> list[dict[str, Any]]:
    """Rows of the wanted envs, each env's latest for its latest episode: an engine that has not been asked for long has
    dropped the oldest records."""
    of_env: dict[int, list[dict[str, Any]]] = {}
    for env, row in zip(envs, rows, strict=True):
        of_env.setdefault(env, []).append(row)
    found = [of_env[env].pop() if of_env.get(env) else {} for env in reversed(wanted)]
    return found[::-1]
