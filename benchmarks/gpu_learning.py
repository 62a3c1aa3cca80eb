"""What the learners reach on a GPU, over ten seeds and with each precision: `make bench-gpu-learning`, or

    python benchmarks/gpu_learning.py [--only NAME ...] [--seeds 10] [--jobs 8] [--device cuda] [--json FILE]

Settings, steps and targets are those of `benchmarks/learning.py`: a GPU changes the speed, not what is learned. Each
figure is the median over seeds of a last evaluation. A row of tf32 or bf16 also compares its seeds with those of
float32: its mean may not be lower by more than noise. Exits with 1 if a row misses what it must reach.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import parser_for, report

NEVER = 10**15  # steps: evaluate and save at the end alone
PRECISIONS = ("float32", "tf32", "bf16")
NOISE = 2.5  # standard errors by which the mean of a precision may be below that of float32
LIMIT = 400  # seconds for all seeds of a row


@dataclass(frozen=True)
class Target:
    """What a learner must reach in a world. The number of envs is that of the recipe on a CPU."""

    world: str
    learner: str
    least: float
    steps: int
    num_envs: int
    metric: str = "eval/return"
    settings: dict[str, Any] = field(default_factory=dict)
    precisions: tuple[str, ...] = PRECISIONS


TARGETS = {
    "ppo-cartpole": Target("CartPole-v1", "ppo", 490, 100_000, 16),
    "ppo-acrobot": Target("Acrobot-v1", "ppo", -90, 500_000, 16),
    "ppo-pendulum": Target("Pendulum-v1", "ppo", -220, 200_000, 16),
    "ppo-hockey": Target("hockey", "ppo", 0.9, 5_000_000, 128, "eval/win_rate"),  # against the weak script
    "dqn-cartpole": Target("CartPole-v1", "dqn", 475, 50_000, 8, precisions=("float32",)),
    "sac-pendulum": Target("Pendulum-v1", "sac", -180, 20_000, 8, precisions=("float32",)),
    "td3-pendulum": Target(
        "Pendulum-v1", "td3", -180, 20_000, 8, precisions=("float32",),
        settings={"td3": {"updates_per_step": 0.5, "start_steps": 1_000, "hidden": [128, 128]}},
    ),
}  # fmt: skip


def train_seeds(name: str, precision: str, seeds: int, device: str) -> dict[str, Any]:
    """The last evaluation of each seed, and the seconds of each run, one after the other in this process."""
    import rookery
    from gpu_ppo import silence

    target, found, seconds = TARGETS[name], [], []
    learner = {**target.settings.get(target.learner, {}), "precision": precision}
    settings = {**target.settings, target.learner: learner}
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder, silence():
            result = rookery.train(
                target.world, learner=target.learner, seed=seed, steps=target.steps, num_envs=target.num_envs,
                device=device, runs_dir=folder, name="run", evaluation={"episodes": 40, "every": NEVER},
                checkpoints={"every": NEVER}, monitor={"plot": False, "tensorboard": False, "panel": False}, **settings,
            )  # fmt: skip
            last = json.loads((result.path / "evaluations.jsonl").read_text().splitlines()[-1])
        found.append(last[target.metric])
        seconds.append(result.seconds)
    return {"values": found, "seconds": seconds}


def in_a_process(name: str, precision: str, seeds: int, device: str) -> dict[str, Any]:
    """The same in a process of its own, so that several of them share the GPU."""
    command = [sys.executable, __file__, "--one", name, precision, "--seeds", str(seeds), "--device", device]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"values": [], "error": f"took longer than {LIMIT} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
    return json.loads(lines[0][5:]) if lines else {"values": [], "error": done.stderr[-800:]}


def row_of(name: str, precision: str, found: dict[str, Any], base: Sequence[float]) -> Row:
    """The median over seeds; that of a precision which learns less than float32 is a miss."""
    target, values = TARGETS[name], found["values"]
    what = f"{name} {precision}, {target.steps // 1000} k steps"
    if not values:
        return Row(f"{what}: failed", found.get("error", ""), "", float("-inf"), target.least, unit="")
    each = ", ".join(f"{value:.4g}" for value in values)
    behind = standard_errors_behind(values, base)
    note = f"{np.mean(found['seconds']):.1f} s each; {behind:.1f} standard errors behind float32"
    value = float(np.median(values)) if behind <= NOISE else float("-inf")
    return Row(what, each, note, value, target.least, unit="")


def standard_errors_behind(values: Sequence[float], base: Sequence[float]) -> float:
    """By how many standard errors of the difference the mean is below that of `base`; 0 if it is not.

    >>> standard_errors_behind([1.0, 3.0], [1.0, 3.0]), standard_errors_behind([0.0, 2.0], [4.0, 6.0])
    (0.0, 2.8284271247461903)
    """
    if len(values) < 2 or len(base) < 2:
        return 0.0
    error = np.sqrt(np.var(values, ddof=1) / len(values) + np.var(base, ddof=1) / len(base))
    difference = float(np.mean(base) - np.mean(values))
    return max(0.0, difference / max(float(error), 1e-9)) if difference > 1e-9 else 0.0


def main() -> int:
    """Train everything, several rows side by side, and print them."""
    parser = parser_for(__doc__, TARGETS)
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds a figure is over (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=8, help="rows that are trained side by side (default: %(default)s)")
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--one", nargs=2, metavar=("NAME", "PRECISION"), help="only train, and print JSON")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    if args.one:
        print("FOUND" + json.dumps(train_seeds(*args.one, args.seeds, args.device)))
        return 0
    jobs = [(name, p) for name in args.only or TARGETS for p in TARGETS[name].precisions if p in args.precision]
    started = time.perf_counter()
    with ThreadPoolExecutor(args.jobs) as pool:
        results = dict(zip(jobs, pool.map(lambda job: in_a_process(*job, args.seeds, args.device), jobs), strict=True))
    print(f"{len(jobs)} rows in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    rows = [row_of(*job, results[job], results.get((job[0], "float32"), {"values": []})["values"]) for job in jobs]
    return report(rows, f"learning on a GPU, {args.seeds} seeds", args.json)


if __name__ == "__main__":
    sys.exit(main())
