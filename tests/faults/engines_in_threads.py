"""A program: four threads make, step and close engines of every backend at the same time, and compare the numbers.

    python -m faults.engines_in_threads SECONDS [CASE ...]

Each thread goes through all cases, from another one on, until the time is over, at least once. It is a program of its
own, as what a process makes once (compiled code, symbols, threads) is made at the first use in a process.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import threading
import time
from functools import partial
from typing import Any

import numpy as np

import rookery
from faults.envs import Walk
from rookery.kernel.kernel_env import KernelEnv

THREADS, N, STEPS, SEED = 4, 4, 30, 3
CARTPOLE = "rookery/CartPole-v1"


class GlobalWalk(Walk):
    """Draws from the generators that all threads share."""

    def observe(self) -> np.ndarray:
        time.sleep(1e-4)  # lets another thread run
        return super().observe() + np.float32(random.random())


def plain_cartpole() -> KernelEnv:
    return KernelEnv("rookery.worlds.classic:CartPole", plain=True)


CASES: dict[str, Any] = {
    "kernel": partial(rookery.make_vec, CARTPOLE, N, "kernel"),
    "kernel of threads": partial(rookery.make_vec, CARTPOLE, 64 * N, "kernel", workers=2),
    "kernel with checked indices": partial(rookery.make_vec, CARTPOLE, N, "kernel", bounds=True),
    "another kernel": partial(rookery.make_vec, "rookery/Acrobot-v1", N, "kernel"),
    "kernel env, serial": partial(rookery.make_vec, CARTPOLE, N, "serial"),
    "plain": partial(rookery.make_vec, plain_cartpole, N, "serial"),
    "serial": partial(rookery.make_vec, Walk, N, "serial"),
    "serial, global random": partial(rookery.make_vec, GlobalWalk, N, "serial"),
    "thread": partial(rookery.make_vec, Walk, N, "thread", 2),
    "fork": partial(rookery.make_vec, Walk, N, "process", 2, start_method="fork"),
    "forkserver": partial(rookery.make_vec, Walk, N, "process", 2, start_method="forkserver"),
    "spawn": partial(rookery.make_vec, Walk, N, "process", 1, start_method="spawn"),
}


def trajectory(case: str) -> bytes:
    """All numbers of a short play of a new engine."""
    envs = CASES[case]()
    try:
        parts = [np.asarray(envs.reset(seed=SEED)[0]).tobytes()]
        actions = np.random.default_rng(SEED).integers(2, size=(STEPS, envs.num_envs))
        for action in actions:
            parts += [np.asarray(part).tobytes() for part in envs.step(action)[:4]]
    finally:
        envs.close()
    return b"".join(parts)


def play_all(cases: list[str], first: int, until: float, start: threading.Barrier, played: list, wrong: list) -> None:
    start.wait()
    while True:
        for k in range(len(cases)):
            case = cases[(first + k) % len(cases)]
            try:
                played.append((case, trajectory(case)))
            except BaseException as error:
                wrong.append(f"{case}: {type(error).__name__}: {error}")
        if time.monotonic() > until or wrong:
            return


def main(seconds: float, cases: list[str]) -> int:
    """The exit status: 0 if all engines gave the numbers of an engine that is alone in its process's time."""
    played: list[tuple[str, bytes]] = []
    wrong: list[str] = []
    start, until = threading.Barrier(THREADS), time.monotonic() + seconds
    places = [k * len(cases) // THREADS for k in range(THREADS)]
    threads = [threading.Thread(target=play_all, args=(cases, at, until, start, played, wrong)) for at in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = {case: trajectory(case) for case in cases}
    wrong += [f"{case}: other numbers than alone" for case, numbers in played if numbers != alone[case]]
    print("\n".join(wrong) or f"{len(played)} engines of {len(cases)} kinds gave the same numbers")
    return bool(wrong)


if __name__ == "__main__":
    faulthandler.enable()
    chosen = sys.argv[2:]
    sys.exit(main(float(sys.argv[1]), chosen or list(CASES)))
