"""What the learners reach, with the recipes that `rookery train` takes by itself: `make bench-learning`, or

    python benchmarks/learning.py [--only NAME ...] [--seeds 3] [--json FILE]

Each figure is the median over seeds of a last evaluation on 20 episodes. Exits with 1 if one misses what it must reach.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from report import measured, parser_for, report

EPISODES = 20
TARGETS: dict[str, tuple[str, str, int, float]] = {  # world, learner, steps, least
    "ppo-cartpole": ("CartPole-v1", "ppo", 100_000, 490),
    "sac-pendulum": ("Pendulum-v1", "sac", 20_000, -180),
    "dqn-cartpole": ("CartPole-v1", "dqn", 50_000, 475),
    "ppo-acrobot": ("Acrobot-v1", "ppo", 500_000, -90),
    "sac-mountaincar": ("MountainCarContinuous-v0", "sac", 50_000, 90),
    "ppo-pendulum": ("Pendulum-v1", "ppo", 200_000, -220),
    "td3-pendulum": ("Pendulum-v1", "td3", 20_000, -180),
    "redq-pendulum": ("Pendulum-v1", "td3", 3_000, -250),
}
# What a row sets beside the recipe.
SETTINGS: dict[str, dict[str, Any]] = {
    "td3-pendulum": {"num_envs": 8, "td3": {"updates_per_step": 0.5, "start_steps": 1_000, "hidden": [128, 128]}},
    "redq-pendulum": {
        "num_envs": 1,
        "td3": {"redq": True, "start_steps": 300, "hidden": [64, 64], "batch_size": 128},
    },
}
SOLVED = 475
SB3_SECONDS = 69  # the zoo's tuned PPO, from process start to a solved CartPole, where the target was set


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Runs tell about themselves; here only the table counts."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def learning_row(name: str, seeds: int) -> list[Row]:
    """Train with each seed, evaluate, take the median."""
    world, learner, steps, least = TARGETS[name]
    found, seconds = [], []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder, quiet():
            result = rookery.train(
                world, learner=learner, steps=steps, seed=seed, runs_dir=folder,
                evaluation={"episodes": EPISODES, "every": steps}, checkpoints={"every": steps},
                monitor={"plot": False, "tensorboard": False}, **SETTINGS.get(name, {}),
            )  # fmt: skip
        found.append(result.evaluation)
        seconds.append(result.seconds)
    all_of_them = ", ".join(f"{value:.4g}" for value in found)
    label = f"{name.partition('-')[0].upper()} {world}, {steps // 1000} k steps"
    return [Row(label, all_of_them, f"{np.median(seconds):.0f} s each", float(np.median(found)), least, unit="")]


def time_row(seeds: int) -> list[Row]:
    """`rookery train CartPole-v1` as a newcomer types it; the second time, when worlds are compiled."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds + 1):
            command = [
                sys.executable,
                "-m",
                "rookery",
                "train",
                "CartPole-v1",
                "--seed",
                str(seed),
                "--name",
                f"r{seed}",
            ]
            started = time.time()
            subprocess.run([*command, "--runs-dir", folder], capture_output=True, check=True)
            events = [json.loads(line) for line in (Path(folder) / f"r{seed}" / "evaluations.jsonl").open()]
            solved = [event["time"] - started for event in events if event["eval/return"] >= SOLVED]
            seconds.append(solved[0] if solved else float("inf"))
    median = float(np.median(seconds[1:]))
    label = f"rookery train CartPole-v1, from process start to an evaluation >= {SOLVED}"
    each = ", ".join(f"{value:.1f} s" for value in seconds[1:])
    return [Row(label, each, f"SB3: {SB3_SECONDS} s", median, 15, unit=" s", most=True)]


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, [*TARGETS, "time"])
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds a figure is over (default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    rows: dict[str, Callable[[], list[Row]]] = {name: partial(learning_row, name, args.seeds) for name in TARGETS}
    rows["time"] = partial(time_row, args.seeds)
    return report(measured(rows, args.only), "rookery learning", args.json)


if __name__ == "__main__":
    sys.exit(main())
