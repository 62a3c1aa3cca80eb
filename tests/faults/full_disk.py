"""A program that saves to a disk which fills up: `python -m faults.full_disk FOLDER`. It fails if that does harm."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import numpy as np

from faults.saver import is_whole, tree_of
from rookery.training.storage.checkpoint import Checkpoints


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main(folder: Path) -> int:
    """Save trees of many sizes, beside one that is there; returns how many of them met the full disk."""
    refused = 0
    for size in np.random.default_rng(9).integers(1, 3_000_000, 60).tolist():
        checkpoints = Checkpoints(folder / "checkpoints", keep=1)
        checkpoints.save(1, tree_of(1))
        before = contents(folder)
        tree = {"agent": {"weights": np.ones(size // 3, np.uint8)}, "replay": {"rewards": np.ones(size, np.uint8)}}
        if size % 2:
            tree["log"] = {"text": "x" * size}
        try:
            checkpoints.save(2, tree)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG):
                raise
            assert contents(folder) == before, "a save that failed has changed something"
            assert os.listdir(checkpoints.folder) == ["step-000000000001"], "something was left behind"
            refused += 1
        step, tree = checkpoints.load_latest()
        assert step == 2 or is_whole(step, tree)
        shutil.rmtree(checkpoints.folder)
    return refused


def limit_files(size: int) -> None:
    """No file of this process can become larger: the kernel refuses the write, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        limit_files(int(sys.argv[2]))
    print(main(Path(sys.argv[1])))
