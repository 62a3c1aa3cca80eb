"""A program that runs an engine until it is killed: `python -m faults.victim METHOD ACT PLACE`.

It prints the pids of all processes below it, then says what it is doing.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import psutil

import rookery
from faults.envs import Act, Walk


def main(method: str, act: str, place: str) -> None:
    print("starting", flush=True)
    box: list[rookery.Engine] = []

    def build() -> None:
        box.append(rookery.make_vec(Walk, 2, "process", 2, start_method=method))

    if place == "thread":
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    else:
        build()
    (envs,) = box
    envs.reset(seed=1)
    print(*[child.pid for child in psutil.Process().children(recursive=True)], flush=True)
    if act == "IDLE":
        time.sleep(1000)
    if act == "STEPPING":
        while True:
            envs.step(np.zeros(2, np.int64))
    envs.send(np.full(2, Act[act]))
    envs.recv()


if __name__ == "__main__":
    main(*sys.argv[1:])
