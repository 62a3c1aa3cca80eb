"""Measures the error of steps against recorded ones: `python benchmarks/hockey_fidelity.py FILE.npz [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import DISABLED, RUNNING
from rookery.kernel.runner import Runner
from rookery.worlds.hockey.field import CENTRE_X, CENTRE_Y, PUCK
from rookery.worlds.hockey.rules import KEPT
from rookery.worlds.hockey.world import Hockey

COMPONENTS = (
    *(f"{name}{player}" for player in (1, 2) for name in ("x", "y", "angle", "vx", "vy", "spin")),
    *("puck x", "puck y", "puck vx", "puck vy", "hold1", "hold2"),
)
PERCENTILES = (50, 90, 99)
NEXT_OBSERVATION = slice(29, 47)
REWARD = 47
WINNER = 49
PENDING = slice(57, 59)
CONTACT = slice(59, 63)
CATCH = slice(63, 65)
REWARD_TOLERANCE = 1e-3


def read_rows(path: Path) -> np.ndarray:
    """The recorded rows in a file, without incomplete ones."""
    file = np.load(path, allow_pickle=False)
    if not isinstance(file, np.lib.npyio.NpzFile) or "rows" not in file.files:
        raise ValueError("there is no array named 'rows'")
    with file:
        rows = file["rows"]
    if rows.ndim != 2 or rows.shape[1] != COLUMNS or not np.issubdtype(rows.dtype, np.number):
        raise ValueError(f"'rows' must be numbers in {COLUMNS} columns, not {rows.dtype} of shape {rows.shape}")
    rows = rows[np.isfinite(rows).all(axis=1)].astype(np.float64)
    if len(rows) == 0:
        raise ValueError("'rows' is empty, or NaN is in each of them")
    return rows


def measure(rows: np.ndarray) -> dict[str, Any]:
    """Errors of steps against the recorded ones, and precision and recall of catches, goals and rewards."""
    ours = replay(rows)
    errors = np.abs(ours["next_observation"] - rows[:, NEXT_OBSERVATION])
    contact = rows[:, CONTACT].any(axis=1)
    winner = rows[:, WINNER]
    return {
        "rows": len(rows),
        "without contact": error_percentiles(errors[~contact]),
        "with contact": error_percentiles(errors[contact]),
        "catches by player 1": precision_and_recall(ours["catch"][:, 0], rows[:, CATCH][:, 0] > 0),
        "catches by player 2": precision_and_recall(ours["catch"][:, 1], rows[:, CATCH][:, 1] > 0),
        "goals by player 1": precision_and_recall(ours["winner"] == 1, winner == 1),
        "goals by player 2": precision_and_recall(ours["winner"] == -1, winner == -1),
        "rewards within 1e-3": float(np.mean(np.abs(ours["reward"] - rows[:, REWARD]) <= REWARD_TOLERANCE)),
    }


def error_percentiles(errors: np.ndarray) -> dict[str, Any]:
    """The percentiles of the error of each component, and the number of rows."""
    found: dict[str, Any] = {"rows": len(errors)}
    if len(errors):
        values = np.percentile(errors, PERCENTILES, axis=0)
        for component, column in zip(COMPONENTS, values.T, strict=True):
            found[component] = {str(p): float(value) for p, value in zip(PERCENTILES, column, strict=True)}
    return found


def precision_and_recall(ours: np.ndarray, recorded: np.ndarray) -> dict[str, Any]:
    """Count, precision and recall of an event."""
    both = int((ours & recorded).sum())
    return {
        "recorded": int(recorded.sum()),
        "precision": both / int(ours.sum()) if ours.any() else None,
        "recall": both / int(recorded.sum()) if recorded.any() else None,
    }


def table(found: dict[str, Any]) -> str:
    """The measurement as text."""
    free, touching = found["without contact"], found["with contact"]
    lines = [
        f"{found['rows']} rows: {free['rows']} without contact, {touching['rows']} with. Percentiles of the error:"
    ]
    lines.append(" " * 10 + f"{'without contact':^33}  {'with contact':^33}")
    lines.append(" " * 10 + "  ".join("".join(f"{p:>10}%" for p in PERCENTILES) for _ in range(2)))
    for component in COMPONENTS:
        halves = ["".join(f"{half[component][str(p)]:>11.2e}" for p in PERCENTILES) if component in half else " " * 33
                  for half in (free, touching)]  # fmt: skip
        lines.append(f"{component:<10}" + "  ".join(halves))
    for event in ("catches by player 1", "catches by player 2", "goals by player 1", "goals by player 2"):
        shown = found[event]
        lines.append(f"{event:<20} {shown['recorded']:>5}: precision {_share(shown['precision'])}, "
                     f"recall {_share(shown['recall'])}")  # fmt: skip
    lines.append(f"rewards within 1e-3: {_share(found['rewards within 1e-3'])}")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.2f} %"


def main(arguments: list[str] | None = None) -> int:
    """Measures one file; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="an .npz file with recorded rows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    try:
        found = measure(read_rows(options.file))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        print(f"error: cannot read rows from {options.file}: {reason}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=2) if options.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

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
