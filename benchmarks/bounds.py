"""What checked indices cost: steps per second of users' worlds, checked over unchecked, in turns in one run.

    python benchmarks/bounds.py                    # on the CPU, a minute
    python benchmarks/bounds.py --backend cuda     # on an NVIDIA GPU

A row shows the median of the ratios and the interval in which the middle half of them lies. It also shows the processor
time that compiling took, with an empty cache (0 where the row before has compiled the same).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import rookery
from kernel.trial_worlds import ConnectFour, DoublePendulum, Snake, portfolio
from measure import in_turns, rate
from rookery.engine.machine import usable_cores
from rookery.kernel.failed_checks import is_checked
from rookery.worlds.classic import CartPole

WORLDS: dict[str, Callable[[], Any]] = {
    "snake": Snake,
    "connect four": ConnectFour,
    "double pendulum": DoublePendulum,
    "portfolio": portfolio,
}
MOST = 0.10  # of the speed, that checks may cost
DRAWN = 16  # actions for each env
SMALL = 1024  # envs


def stepper(envs: Any, seconds: float) -> Callable[[], float]:
    """Steps envs with actions drawn in advance. On a GPU, a rate ends when all its steps are made."""
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(DRAWN)]
    wait = _nothing
    if envs.backend == "cuda":
        import torch

        actions, wait = [torch.from_numpy(each).to(envs.device) for each in actions], torch.cuda.synchronize

    def steps() -> None:
        for each in actions:
            envs.step(each)
        wait()

    return lambda: rate(steps, envs.num_envs * DRAWN, seconds)


def _nothing() -> None:
    """On a CPU, a step that has returned is made."""


def compare(name: str, backend: str, num_envs: int, rounds: int, seconds: float) -> float:
    """Print a row; returns the median ratio."""
    # A GPU is not waited for in every step. On a CPU both sides have the same threads, one for small batches: the
    # engine's own choice between one and two made differences of 20 % in either direction.
    threads = 1 if num_envs < SMALL else usable_cores()
    options: dict[str, Any] = {"bad_values": "allow"} if backend == "cuda" else {"workers": threads}
    sides, compiling = {}, {}
    for side, bounds in (("unchecked", False), ("checked", True)):
        begun = time.process_time()
        envs = rookery.make_vec(WORLDS[name](), num_envs, backend=backend, bounds=bounds, **options)
        compiling[side] = time.process_time() - begun
        sides[side] = stepper(envs, seconds)
    found = in_turns(sides, rounds)
    ratios = found["checked"] / found["unchecked"]
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    speed = np.median(found["checked"])
    print(
        f"{name:16} {num_envs:7,} envs  {speed:13,.0f} steps/s  {middle:5.3f} [{low:5.3f}, {high:5.3f}]  "
        f"start {compiling['unchecked']:5.1f} s, checked {compiling['checked']:5.1f} s",
        flush=True,
    )
    return float(middle)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("kernel", "cuda"), default="kernel")
    parser.add_argument("--envs", type=int, nargs="*", default=None)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.25, help="of one measurement")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    given = parser.parse_args()
    counts = given.envs or ([16_384, 262_144] if given.backend == "cuda" else [64, 16_384])
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ROOKERY_CACHE"] = cache
        rookery.make_vec(CartPole(), 1, backend=given.backend).close()  # imports the compiler
        ratios = [
            compare(name, given.backend, count, given.rounds, given.seconds)
            for name in given.worlds
            for count in counts
        ]
    worst = 1.0 - min(ratios)
    print(f"largest cost: {100 * worst:.1f} %; at most {100 * MOST:.0f} % is the goal")
    print(f"rookery's own worlds are {'checked' if is_checked(CartPole(), None) else 'not checked, and cost nothing'}")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
