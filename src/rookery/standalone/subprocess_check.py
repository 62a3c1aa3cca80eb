"""What a standalone agent answers in a process of its own, which must not need more than Python and NumPy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rookery.errors import RunError

SECONDS = 120
CALLS = 2  # one after the other, so that what an agent remembers shows
ASK = """
import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import numpy as np
import agent

mine = agent.Agent()
with np.load(sys.argv[1] + "/asked.npz", allow_pickle=False) as file:
    asked = dict(file)
mask = asked.pop("mask", None)


def observation(rows):
    if not mine._leaves[0]["path"]:
        return asked["0"][rows]
    tree = {}
    for k, leaf in enumerate(mine._leaves):
        *folders, last = leaf["path"]
        branch = tree
        for folder in folders:
            branch = branch.setdefault(folder, {})
        branch[last] = asked[str(k)][rows]
    return tree


def answers(rows):
    mine.reset()
    allowed = None if mask is None else mask[rows]
    return np.stack([np.asarray(mine.act(observation(rows), mask=allowed)) for _ in range(int(sys.argv[2]))])


rows = len(asked["0"])
singles = np.stack([answers(row) for row in range(rows)], 1)
np.savez(sys.argv[1] + "/answers.npz", batch=answers(slice(None)), singles=singles)
foreign = {"rookery", "torch", "gymnasium"} & set(sys.modules)
sys.exit(f"it imports {', '.join(sorted(foreign))}" if foreign else 0)
"""


def answers(text: str, leaves: list[np.ndarray], mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """What the agent in `text` does when it sees a batch of observations, given as one array for each of their parts,
    and when it sees them one by one: both [calls, rows, ...]."""
    with TemporaryDirectory(prefix="rookery-") as place:
        folder = Path(place)
        (folder / "agent.py").write_text(text, encoding="utf-8")
        asked = {str(k): leaf for k, leaf in enumerate(leaves)} | ({} if mask is None else {"mask": mask})
        np.savez(folder / "asked.npz", **asked)  # type: ignore[arg-type]
        # Isolated: neither the user's folders nor PYTHONPATH count.
        ended = subprocess.run(
            [sys.executable, "-I", "-c", ASK, place, str(CALLS)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            cwd=place,
        )
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
            raise RunError(f"the standalone agent is not written: on its own it fails: {reason}")
        with np.load(folder / "answers.npz", allow_pickle=False) as file:
            return file["batch"], file["singles"]
