"""A program of the comparison in portable.py: `portable_side.py WORLD NUM_ENVS ["endless"]`.

It prints whether its workers are portable, the pids of its processes and the files of its shared memory. Then it steps
as often as each line of its input says, and prints how long that took; or it steps until it is killed.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import psutil

import rookery
from engine_worlds import Busy
from rookery.engine.workers.child_process import PORTABLE

WORLDS = {"cartpole": "CartPole-v1", "busy": partial(Busy, 1e-4)}


def main(world: str, num_envs: str, mode: str = "") -> None:
    """Serve until the input ends."""
    with closing(rookery.make_vec(WORLDS[world], int(num_envs), backend="process", workers=2)) as envs:
        envs.reset(seed=1)
        actions = np.arange(envs.num_envs) % 2
        pids = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
        print(PORTABLE, ",".join(map(str, pids)), ",".join(shared_files()), flush=True)
        while mode == "endless":
            envs.step(actions)
        for line in sys.stdin:
            start = time.perf_counter()
            for _ in range(int(line)):
                envs.step(actions)
            print(time.perf_counter() - start, flush=True)


def shared_files() -> set[str]:
    """The files in memory that this process has mapped."""
    mapped = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    return {path for path in mapped if f"/rookery-{os.getpid()}-" in path}


if __name__ == "__main__":
    main(*sys.argv[1:])
