"""What the learners reach, with the recipes that `rookery train` takes by itself: `make bench-learning`, or

    python benchmarks/learning.py [--only NAME ...] [--seeds 3] [--json FILE]

Each figure is the median over seeds of a last evaluation, on 20 episodes or more; `by-name` takes the agent that
`rookery eval` loads instead, the best one, on 100 episodes. Exits with 1 if one misses what it must reach.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from report import measured, parser_for, report


@dataclass(frozen=True)
class Target:
    """What a learner must reach in a world, on how many episodes; without `steps`, with those of the recipe."""

    world: str
    learner: str
    least: float
    steps: int | None = None
    episodes: int = 20


TARGETS = {
    "ppo-cartpole": Target("CartPole-v1", "ppo", 490, 100_000),
    "sac-pendulum": Target("Pendulum-v1", "sac", -180, 20_000),
    "dqn-cartpole": Target("CartPole-v1", "dqn", 475, 50_000),
    "ppo-acrobot": Target("Acrobot-v1", "ppo", -85),
    "sac-mountaincar": Target("MountainCarContinuous-v0", "sac", 90, 50_000),
    "ppo-pendulum": Target("Pendulum-v1", "ppo", -180),
    "td3-pendulum": Target("Pendulum-v1", "td3", -180, 20_000),
    "redq-pendulum": Target("Pendulum-v1", "td3", -250, 3_000),
    # As `rookery train ID` trains them, with nothing else given. LunarLander needs gymnasium[box2d].
    "frozenlake": Target("FrozenLake-v1", "auto", 0.70, episodes=1_000),
    "blackjack": Target("Blackjack-v1", "auto", -0.06, episodes=20_000),  # one game is -1, 0 or 1: se 0.007
    "taxi": Target("Taxi-v3", "auto", 7.5, episodes=500),
    "cliffwalking": Target("CliffWalking", "auto", -14),
    "lunarlander": Target("LunarLander-v3", "auto", 200, episodes=50),
    "hopper": Target("Hopper-v5", "auto", 2_000),
    "halfcheetah": Target("HalfCheetah-v5", "auto", 1_500),
}
# What `rookery eval` must find after `rookery train ID`.
BY_NAME = {
    "MountainCarContinuous-v0": 90,
    "Pendulum-v1": -180,
    "Acrobot-v1": -82,
    "MountainCar-v0": -112,
    "LunarLander-v3": 240,
}
# What a row sets beside the recipe.
SETTINGS: dict[str, dict[str, Any]] = {
    "td3-pendulum": {"num_envs": 8, "td3": {"updates_per_step": 0.5, "start_steps": 1_000, "hidden": [128, 128]}},
    "redq-pendulum": {
        "num_envs": 1,
        "td3": {"redq": True, "start_steps": 300, "hidden": [64, 64], "batch_size": 128},
    },
}
NEVER = 10**9  # steps: evaluate and save at the end alone
SOLVED = 475
SB3_SECONDS = 69  # the zoo's tuned PPO, from process start to a solved CartPole, where the target was set


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Runs tell about themselves; here only the table counts."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def learning_row(name: str, seeds: int) -> list[Row]:
    """Train with each seed, evaluate, take the median."""
    target = TARGETS[name]
    given: dict[str, Any] = dict(SETTINGS.get(name, {})) | ({"steps": target.steps} if target.steps else {})
    results = []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder, quiet():
            result = rookery.train(
                target.world, learner=target.learner, seed=seed, runs_dir=folder,
                evaluation={"episodes": target.episodes, "every": NEVER}, checkpoints={"every": NEVER},
                monitor={"plot": False, "tensorboard": False}, **given,
            )  # fmt: skip
        results.append(result)
    found = [result.evaluation for result in results]
    seconds = np.median([result.seconds for result in results])
    label = f"{name.partition('-')[0]} {target.world}, {results[0].total_steps // 1000} k steps"
    each = ", ".join(f"{value:.4g}" for value in found)
    return [Row(label, each, f"{seconds:.0f} s each", float(np.median(found)), target.least, unit="")]


def by_name_rows(seeds: int) -> Iterator[Row]:
    """Both commands as a newcomer types them, in each world."""
    for world, least in BY_NAME.items():
        with tempfile.TemporaryDirectory() as folder:
            found = [_trained_and_evaluated(world, seed, folder) for seed in range(1, seeds + 1)]
        each = ", ".join(f"{value:.4g}" for value in found)
        yield Row(f"rookery train {world}, then eval", each, "", float(np.median(found)), least, unit="")


def _trained_and_evaluated(world: str, seed: int, folder: str) -> float:
    """The mean return of 100 episodes."""
    rookery_command = [sys.executable, "-m", "rookery"]
    given = ["--seed", str(seed), "--name", f"{world}-{seed}", "--runs-dir", folder]
    subprocess.run([*rookery_command, "train", world, *given], capture_output=True, check=True)
    evaluate = [*rookery_command, "eval", f"{folder}/{world}-{seed}", "--episodes", "100", "--json"]
    return float(json.loads(subprocess.run(evaluate, capture_output=True, check=True).stdout)["return_mean"])


def time_rows(seeds: int) -> list[Row]:
    """`rookery train CartPole-v1` as a newcomer types it; the second time, when worlds are compiled."""
    with tempfile.TemporaryDirectory() as folder:
        solved, whole, shares = zip(*[_timed_command(Path(folder), seed) for seed in range(seeds + 1)][1:], strict=True)
    command = "rookery train CartPole-v1"

    def row(what: str, values: Sequence[float], most: float, unit: str, theirs: str = "") -> Row:
        each = ", ".join(f"{value:.1f}{unit}" for value in values)
        return Row(f"{command}, {what}", each, theirs, float(np.median(values)), most, unit=unit, most=True)

    return [
        row(f"from process start to an evaluation >= {SOLVED}", solved, 15, " s", f"SB3: {SB3_SECONDS} s"),
        row("the whole command", whole, 8, " s"),
        row("evaluations' share of it", shares, 10, " %"),
    ]


def _timed_command(runs: Path, seed: int) -> tuple[float, float, float]:
    """Seconds until it was solved, seconds in all, and the percentage of evaluations."""
    command = [sys.executable, "-m", "rookery", "train", "CartPole-v1", "--seed", str(seed), "--name", f"r{seed}"]
    started = time.time()
    subprocess.run([*command, "--runs-dir", runs], capture_output=True, check=True)
    whole = time.time() - started
    events = [json.loads(line) for line in (runs / f"r{seed}" / "evaluations.jsonl").open()]
    solved = [event["time"] - started for event in events if event["eval/return"] >= SOLVED]
    share = 100 * sum(event["eval/seconds"] for event in events) / whole
    return solved[0] if solved else float("inf"), whole, share


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, [*TARGETS, "by-name", "time"])
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds a figure is over (default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    rows: dict[str, Callable[[], list[Row]]] = {name: partial(learning_row, name, args.seeds) for name in TARGETS}
    rows["by-name"] = lambda: list(by_name_rows(args.seeds))
    rows["time"] = partial(time_rows, args.seeds)
    return report(measured(rows, args.only), "rookery learning", args.json)


if __name__ == "__main__":
    sys.exit(main())
