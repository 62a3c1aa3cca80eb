"""A program that saves checkpoints until it is stopped: `python -m faults.saver FOLDER`.

Or one that holds a run's folder: `python -m faults.saver --hold FOLDER`.
"""

from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import RunBusy
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir


def tree_of(step: int) -> dict[str, Any]:
    """A tree whose parts all tell its step."""
    arrays = {f"layer{i}": np.full((40, 50), step + i, np.float64) for i in range(4)}
    return {"agent": arrays, "replay": {"rewards": np.full(30_000, step, np.float32)}, "step": step}


def is_whole(step: int, tree: dict[str, Any]) -> bool:
    """Whether everything in the tree is of this step."""
    expected = tree_of(step)
    return (
        tree["step"] == step
        and all(np.array_equal(tree["agent"][name], array) for name, array in expected["agent"].items())
        and np.array_equal(tree["replay"]["rewards"], expected["replay"]["rewards"])
    )


def save_on(folder: Path) -> None:
    checkpoints = Checkpoints(folder, keep=2)
    for step in count(max(checkpoints.steps(), default=0) + 1):
        checkpoints.save(step, tree_of(step), score=float(step % 5))


def hold(folder: Path) -> None:
    try:
        with RunDir(folder).lock():
            print("holding", flush=True)
            time.sleep(1000)
    except RunBusy as error:
        print(f"refused: {error}", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--hold":
        hold(Path(sys.argv[2]))
    else:
        print("saving", flush=True)
        save_on(Path(sys.argv[1]))
