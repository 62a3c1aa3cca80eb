"""The part of an observation that is a stretch of a table, such as the last rows of prices.

The engine copies it. On a GPU neighbouring threads copy neighbouring numbers, which is several times faster than
`observe`, where each thread writes the whole observation of its env.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import WorldError
from rookery.kernel.translate import Function, line_of

BAD_WINDOW = 9  # a value of `faults`, besides those in env_loop.py: a window that is not in its table


@dataclass(frozen=True)
class TableWindow:
    """Says which part of the observation is copied from where. The world's `window_start` says from which element on.

    Args:
        table: The name of a table with one dimension, of the observation's dtype.
        at: The first element of the (flat) observation that is copied.
        size: The number of elements.
    """

    table: str
    at: int
    size: int


def check_window(world: Any) -> None:
    """Refuse a window that does not fit the world."""
    window = world.table_window
    if window is None and world.window_start is None:
        return
    if window is None or world.window_start is None:
        missing = "window_start" if window is not None else "table_window"
        raise WorldError(f"{world.name} has no {missing}: `table_window` and `window_start` belong together")
    if world.num_agents > 1 or not isinstance(world.observation_space, spaces.Box):
        raise WorldError(f"{world.name}.table_window needs one agent, and a Box of observations")
    size = math.prod(world.observation_space.shape)
    if not 0 <= window.at <= window.at + window.size <= size:
        raise WorldError(f"{world.name}.table_window does not fit into the {size} numbers of an observation: {window}")
    table = np.asarray(world.tables.get(window.table))
    if table.ndim != 1 or table.dtype != world.observation_space.dtype or len(table) < window.size:
        raise WorldError(
            f"{world.name}.table_window: {window.table!r} should be a table with one dimension, at least {window.size} "
            f"elements, and the observation's dtype {world.observation_space.dtype}"
        )
    if table.dtype.kind == "f" and not np.isfinite(table).all():  # once, here: the copies are not checked
        raise WorldError(f"{world.name}.table_window: the table {window.table!r} holds NaN or infinity")


def build_window(world: Any, window_start: Function | None, later: bool) -> tuple[Function, Function]:
    """`write(columns, tables, i, state, params)` copies the window of env i; with `later` it only notes its beginning.
    `keep(columns, i)` keeps that note for the last observation of an episode."""
    window = world.table_window
    if window is None or window_start is None:
        return _write_nothing, _keep_nothing

    def keep(columns: Any, i: int) -> None:
        columns.final_starts[i] = columns.window_starts[i]

    copied = (
        "        columns.window_starts[i] = start\n"
        if later
        else f"        for k in range({window.size}):\n"
        f"            columns.flat[i, {window.at} + k] = tables.{window.table}[start + k]\n"
    )
    scope: dict[str, Any] = {"window_start": window_start, "__name__": __name__}
    exec(  # noqa: S102 - names of tables were checked before
        "def write(columns, tables, i, state, params):\n"
        "    start = window_start(state, params, tables)\n"
        f"    if 0 <= start <= tables.{window.table}.shape[0] - {window.size}:\n"
        f"{copied}"
        "    else:\n"
        "        columns.window_starts[i] = 0\n"
        f"        columns.faults[i] = {BAD_WINDOW}\n"
        "        columns.failures[i, 1] = start\n"
        f"        columns.failures[i, 2] = tables.{window.table}.shape[0]\n",
        scope,
    )
    return scope["write"], keep if later else _keep_nothing


def outside_table(world: Any, failure: Any) -> str:
    """What is wrong with the window of an env with the fault BAD_WINDOW."""
    window, (_, start, length) = world.table_window, map(int, failure)
    return (
        f"window_start returned {start}, and the table {window.table!r} of {length} numbers does not contain "
        f"{window.size} from there on{line_of(world.window_start)}"
    )


def _write_nothing(columns: Any, tables: Any, i: int, state: Any, params: Any) -> None:
    """For a world without a window."""


def _keep_nothing(columns: Any, i: int) -> None:
    """For a world without a window, and where the copy of an observation holds it."""
