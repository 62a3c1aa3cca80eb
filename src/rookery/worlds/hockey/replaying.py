"""Repeats recorded steps of the original game in this world, from the same states."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import DISABLED, RUNNING
from rookery.kernel.runner import Runner
from rookery.worlds.hockey.field import CENTRE_X, CENTRE_Y, PUCK
from rookery.worlds.hockey.rules import KEPT
from rookery.worlds.hockey.world import Hockey

COLUMNS = 65
OBSERVATION = 3
ACTIONS = slice(21, 29)


def replay(rows: Any, plain: bool = False) -> dict[str, np.ndarray]:
    """Steps each row from its observation, hidden state and actions.

    Returns arrays `next_observation` (n, 18), `reward` (n,), `winner` (n,) and `catch` (n, 2).
    """
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != COLUMNS:
        raise ValueError(f"rows must have {COLUMNS} columns, got an array of shape {rows.shape}")
    if not np.isin(rows[:, 2], (0, 1, 2)).all():
        raise ValueError("column 2, the mode, must be 0, 1 or 2")
    odd = np.flatnonzero(~np.isfinite(rows[:, ACTIONS]).all(axis=1))
    if len(odd):  # of a batch with such an action, no env would be stepped
        raise ValueError(f"row {odd[0]}: the actions must be finite, got {rows[odd[0], ACTIONS].tolist()}")
    env_arrays = EnvArrays(Hockey(), len(rows))
    env_arrays.spread_params()
    env_arrays.params["mode"] = rows[:, 2]
    env_arrays.actions[:] = rows[:, ACTIONS]
    restore(env_arrays.states, rows)
    held_before = env_arrays.states["hold"].copy()
    Runner(env_arrays, DISABLED, strict=False, plain=plain).step(0, len(rows))
    return {
        "next_observation": env_arrays.observations.astype(np.float64),
        "reward": env_arrays.rewards.copy(),
        "winner": env_arrays.states["winner"].astype(np.int64),
        "catch": (held_before == 0) & (env_arrays.states["hold"] == KEPT),
    }


def restore(states: np.ndarray, rows: np.ndarray) -> None:
    """Sets states to those recorded in rows."""
    states["stage"] = RUNNING
    for player in range(2):
        first = OBSERVATION + 6 * player
        states["x"][:, player], states["y"][:, player] = rows[:, first] + CENTRE_X, rows[:, first + 1] + CENTRE_Y
        for k, name in enumerate(("angle", "vx", "vy", "spin"), start=2):
            states[name][:, player] = rows[:, first + k]
        states["hold"][:, player] = rows[:, OBSERVATION + 16 + player]
        states["touching"][:, player] = rows[:, 55 + player]
    puck = OBSERVATION + 12
    states["x"][:, PUCK], states["y"][:, PUCK] = rows[:, puck] + CENTRE_X, rows[:, puck + 1] + CENTRE_Y
    states["vx"][:, PUCK], states["vy"][:, PUCK] = rows[:, puck + 2], rows[:, puck + 3]
    states["spin"][:, PUCK] = rows[:, 53]
    states["push_x"], states["push_y"] = rows[:, 57], rows[:, 58]
