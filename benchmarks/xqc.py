"""XQC beside SAC: updates a second, and what it reaches in few steps:

    python benchmarks/xqc.py [--only NAME ...] [--robots] [--device cpu] [--seeds 5] [--first-seed 1] [--processes 1]
                             [--set KEY=VALUE ...] [--json FILE]

Updates are made from a full buffer, in turns with SAC's, which has nets of 256x256; no env is stepped. On a CPU they
are counted per second of one thread's CPU time, which other processes hardly change. Returns are interquartile means
over seeds of an evaluation at the end, on 20 episodes, with the settings that `rookery train ID --learner xqc` takes by
itself, and with those of `--set`; recipes were chosen on seeds from 101 on. `--processes` runs are trained at a time,
of all worlds. `--robots` stands for the four robots. Five evaluations of a run are printed on the way.
Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row, ratio_row
from gpu_offpolicy import CONTINUOUS, UPDATES, ours
from measure import in_turns
from report import measured, parser_for, report, said
from rookery.config.layers import merge, parse_override
from rookery.learners.registry import SACOptions, XQCOptions


class Target(NamedTuple):
    """The least return after so many steps."""

    world: str
    steps: int
    least: float


TARGETS = {
    "pendulum": Target("Pendulum-v1", 5_000, -180),
    "mountaincar": Target("MountainCarContinuous-v0", 30_000, 90),
    "halfcheetah": Target("HalfCheetah-v5", 100_000, 5_500),
    "hopper": Target("Hopper-v5", 100_000, 2_000),
    "walker2d": Target("Walker2d-v5", 100_000, 2_000),
    "ant": Target("Ant-v5", 100_000, 1_500),
}
ROBOTS = ["halfcheetah", "hopper", "walker2d", "ant"]


def speed_row(what: str, options: dict[str, Any], least: float, rounds: int, device: str) -> list[Row]:
    """Updates a second, as a share of SAC's."""
    sides = {
        "xqc": ours("Pendulum-v1", "xqc", XQCOptions(**{**CONTINUOUS, "hidden": [256, 256], **options}), device),
        "sac": ours("Pendulum-v1", "sac", SACOptions(**CONTINUOUS), device),
    }
    if device == "cpu":
        torch.set_num_threads(1)
        UPDATES["ours"] = 6
        sides = {name: partial(cpu_rate, turn) for name, turn in sides.items()}
    in_turns(sides, 1)
    found = in_turns(sides, rounds)
    return [ratio_row(f"XQC updates/s, batch 256, {what} / SAC, 256x256", found["xqc"], found["sac"], least)]


def cpu_rate(turn: Callable[[], float]) -> float:
    """Updates per second of CPU time."""
    started = time.process_time()
    turn()
    return UPDATES["ours"] / (time.process_time() - started)


class Curve(rookery.Callback):
    """Prints evaluations."""

    def __init__(self, run: str) -> None:
        self.run = run

    def on_evaluation(self, run: Any, metrics: Any) -> None:
        said(f"{self.run}, {run.step:,} steps: {metrics['eval/return']:.1f}")


def trained(target: Target, device: str, settings: dict[str, Any], seed: int) -> tuple[float, float]:
    """The last evaluation of a run, and its seconds."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        started = time.perf_counter()
        given = {
            "learner": "xqc", "steps": target.steps, "seed": seed, "device": device, "runs_dir": folder,
            "evaluation": {"episodes": 20, "max_episodes": 20, "every": target.steps // 5},
            "checkpoints": {"every": 10**9},
            "monitor": {"plot": False, "tensorboard": False, "verbose": False, "panel": False},
        }  # fmt: skip
        curve = Curve(f"{target.world}, seed {seed}")
        result = rookery.train(target.world, callbacks=[curve], **merge(given, settings))
        return result.evaluation, time.perf_counter() - started


def interquartile_mean(values: list[float]) -> float:
    """The mean of the middle half, with shares of values at its ends.

    >>> interquartile_mean([1.0, 2.0, 3.0, 4.0, 100.0])
    3.0
    """
    weights = np.clip(np.arange(1, len(values) + 1) - len(values) / 4, 0, 1)
    weights = np.minimum(weights, weights[::-1])
    return float(np.average(np.sort(values), weights=weights))


class Training:
    """Runs in processes of their own: all of them begin with the first row that waits for one."""

    def __init__(self, pool: ProcessPoolExecutor, names: list[str], seeds: range, *how: Any) -> None:
        self._pool, self._names, self._seeds, self._how = pool, names, seeds, how
        self._runs: dict[str, list[Future[tuple[float, float]]]] = {}

    def row(self, name: str) -> list[Row]:
        """All seeds of a world."""
        if not self._runs:
            for each in self._names:
                train = partial(trained, TARGETS[each], *self._how)
                self._runs[each] = [self._pool.submit(train, seed) for seed in self._seeds]
        found, target = [run.result() for run in self._runs[name]], TARGETS[name]
        returns, seconds = [value for value, _ in found], np.median([seconds for _, seconds in found])
        each = ", ".join(f"{value:.4g}" for value in returns)
        label = f"XQC {target.world}, {target.steps // 1000} k steps"
        return [Row(label, each, f"{seconds:.0f} s each", interquartile_mean(returns), target.least, unit="")]


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ["speed", "speed-small", *TARGETS], rounds=5)
    parser.add_argument("--robots", action="store_true", help=f"as --only {' '.join(ROBOTS)}")
    parser.add_argument("--device", default="cpu", help="(default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds a return is over (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time (default: %(default)s)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the configuration of all runs")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    same: dict[str, Any] = {"rounds": args.rounds, "device": args.device}
    rows: dict[str, Callable[[], list[Row]]] = {
        "speed": partial(speed_row, "4 x 512", {}, 0.35 if args.device != "cpu" else 0.1, **same),
        "speed-small": partial(speed_row, "256x256", {"critic_hidden": [256, 256]}, 0.35, **same),
    }
    only = (args.only or []) + ROBOTS * args.robots or list(rows) + list(TARGETS)
    settings, seeds = merge(*map(parse_override, args.set)), range(args.first_seed, args.first_seed + args.seeds)
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        training = Training(pool, [name for name in only if name in TARGETS], seeds, args.device, settings)
        rows |= {name: partial(training.row, name) for name in TARGETS}
        return report(measured(rows, only, args.json), "XQC", args.json)


if __name__ == "__main__":
    sys.exit(main())
