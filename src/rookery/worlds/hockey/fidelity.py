"""Measures the error of steps against recorded ones: `python -m rookery.worlds.hockey.fidelity FILE.npz [--json]`."""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from rookery.worlds.hockey.replaying import COLUMNS, replay

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
    parser = argparse.ArgumentParser(prog="rookery.worlds.hockey.fidelity", description=__doc__)
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
