"""Every task of Gymnasium by its name: what the agent of the last step reaches, beside the best that rl-zoo3 publishes.

    python benchmarks/every_task.py [--only NAME ...] [--seeds 5] [--first-seed 1] [--jobs 1] [--device auto]
                                    [--set KEY=VALUE ...] [--results FILE] [--json FILE]

Each run is what `rookery train ID` does, in a process of its own, with one evaluation at the end. A figure is the
interquartile mean over seeds; beside it stand the median and 95 % of the interquartile means of seeds drawn with
replacement. A task must reach the mean return of rl-zoo3's best agent less one standard error of that mean, which is
its standard deviation over episodes divided by the root of their number. The last row is the share of tasks that do.
MuJoCo's tasks are version 3 there. Tasks that rl-zoo3 does not list have no goal.

Called again, it continues: runs that have ended are in `--results`. Recipes were chosen on seeds from 101 on.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import measured, parser_for, report, said
from xqc import interquartile_mean

LEAST_SHARE = 85  # percent of the tasks with a goal
DRAWS = 10_000


class Published(NamedTuple):
    """rl-zoo3's best agent: mean and standard deviation of the return, over so many episodes."""

    mean: float
    deviation: float
    episodes: int
    learner: str

    @property
    def goal(self) -> float:
        return self.mean - self.deviation / math.sqrt(self.episodes)


# https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md
ZOO = {
    "CartPole-v1": Published(500.0, 0.0, 300, "PPO"),
    "Acrobot-v1": Published(-69.135, 9.967, 2149, "QR-DQN"),
    "MountainCar-v0": Published(-100.849, 9.925, 1487, "DQN"),
    "MountainCarContinuous-v0": Published(96.672, 0.784, 621, "ARS"),
    "Pendulum-v1": Published(-151.855, 90.227, 750, "TD3"),
    "LunarLander-v3": Published(242.119, 31.823, 369, "PPO"),
    "LunarLanderContinuous-v3": Published(277.956, 25.466, 706, "TQC"),
    "BipedalWalker-v3": Published(329.808, 45.083, 254, "TQC"),
    "BipedalWalkerHardcore-v3": Published(235.226, 110.569, 131, "TQC"),
    "HalfCheetah-v5": Published(12089.939, 127.440, 150, "TQC"),
    "Hopper-v5": Published(3754.199, 8.276, 150, "TQC"),
    "Walker2d-v5": Published(4933.148, 1452.538, 163, "TRPO"),
    "Swimmer-v5": Published(365.663, 2.087, 150, "TRPO"),
    "Ant-v5": Published(5813.274, 589.773, 151, "TD3"),
    "Humanoid-v5": Published(7239.320, 1647.498, 165, "TQC"),
}
OTHERS = [
    "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1", "CarRacing-v3",
    "InvertedPendulum-v5", "InvertedDoublePendulum-v5", "Reacher-v5", "Pusher-v5", "HumanoidStandup-v5",
]  # fmt: skip
EPISODES = {"Pendulum-v1": 500, "FrozenLake-v1": 1000, "FrozenLake8x8-v1": 1000, "Taxi-v4": 500, "Blackjack-v1": 20_000}
USUAL_EPISODES = 100
NEVER = 10**9  # steps: evaluate and save at the end alone
Run = tuple[str, int]  # task and seed


def trained(task: str, seed: int, device: str, sets: list[str]) -> dict[str, float]:
    """One run, and its evaluation."""
    import rookery
    from rookery.config.layers import merge, parse_override

    episodes = EPISODES.get(task, USUAL_EPISODES)
    with tempfile.TemporaryDirectory() as folder:
        given = {
            "seed": seed, "device": device, "runs_dir": folder, "checkpoints": {"every": NEVER},
            "evaluation": {"episodes": episodes, "max_episodes": episodes, "every": NEVER},
            "monitor": {"panel": False, "plot": False, "tensorboard": False, "report": False, "verbose": False},
        }  # fmt: skip
        result = rookery.train(task, **merge(given, *map(parse_override, sets)))
    return {"return": float(result.evaluation), "steps": result.total_steps, "seconds": result.seconds}


class Table:
    """Runs that have ended, in a file with a line for each."""

    def __init__(self, file: Path, device: str, sets: list[str]) -> None:
        self._file, self._how = file, {"device": device, "set": sets}
        file.parent.mkdir(parents=True, exist_ok=True)

    def ended(self) -> dict[Run, dict[str, Any]]:
        """By task and seed, those that were made in this way."""
        rows = [json.loads(line) for line in self._file.read_text().splitlines()] if self._file.exists() else []
        return {(row["task"], row["seed"]): row for row in rows if row["how"] == self._how}

    def make(self, run: Run) -> None:
        """In a process of its own, with all that it keeps."""
        task, seed = run
        how = ["--device", self._how["device"], *(["--set", *self._how["set"]] if self._how["set"] else [])]
        command = [sys.executable, __file__, "--one", task, str(seed), *how]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said(f"{task}, seed {seed}, failed: {done.stderr.strip()[-1000:]}")
            return
        found = {"task": task, "seed": seed, "how": self._how, **json.loads(done.stdout.splitlines()[-1])}
        with self._file.open("a") as kept:
            print(json.dumps(found), file=kept)
        said(f"{task}, seed {seed}: {found['return']:.4g} after {found['seconds']:.0f} s")


def task_row(task: str, seeds: range, table: Table, jobs: int) -> Iterator[Row]:
    """A task's runs, those that are missing made now, `jobs` at a time."""
    runs = [(task, seed) for seed in seeds]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(table.make, [run for run in runs if run not in table.ended()]))
    ended = table.ended()
    found = [ended[run] for run in runs if run in ended]
    returns = [run["return"] for run in found]
    if len(found) < len(runs):
        yield Row(task, "", f"{len(runs) - len(found)} of {len(runs)} runs failed", -math.inf, -math.inf)
        return
    steps, seconds = (np.median([run[key] for run in found]) for key in ("steps", "seconds"))
    low, high = interval(np.array(returns))
    known, title = ZOO.get(task), f"{task}, {steps / 1000:,.0f} k steps, {seconds:.0f} s"
    ours = f"{', '.join(f'{value:.4g}' for value in returns)}; median {np.median(returns):.4g}; {low:.4g} to {high:.4g}"
    theirs = f"{known.learner} {known.mean:.4g}" if known else ""
    yield Row(title, ours, theirs, interquartile_mean(returns), known.goal if known else -math.inf, unit="")


def interval(returns: np.ndarray) -> tuple[float, float]:
    """95 % of the interquartile means of seeds drawn with replacement."""
    draws = np.random.default_rng(0).choice(returns, (DRAWS, len(returns)))
    low, high = np.quantile([interquartile_mean(list(draw)) for draw in draws], [0.025, 0.975])
    return float(low), float(high)


def share_row(rows: list[Row]) -> list[Row]:
    """How many of the tasks with a goal reach it."""
    known = [row for row in rows if math.isfinite(row.least)]
    share = 100 * sum(row.passed for row in known) / len(known) if known else 0.0
    return [Row(f"tasks at rl-zoo3's best, of {len(known)}", "", "", share, LEAST_SHARE, " %")] if known else []


def main() -> int:
    """Train what is missing, and print the table."""
    parser = parser_for(__doc__, [*ZOO, *OTHERS])
    parser.add_argument("--seeds", type=int, default=5, help="how many (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="(default: %(default)s)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the configuration of all runs")
    parser.add_argument("--results", type=Path, default=Path("build/every_task.jsonl"), help="(default: %(default)s)")
    parser.add_argument("--one", nargs=2, metavar=("TASK", "SEED"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(trained(args.one[0], int(args.one[1]), args.device, args.set)))
        return 0
    table, seeds = Table(args.results, args.device, args.set), range(args.first_seed, args.first_seed + args.seeds)
    only = args.only or [*ZOO, *OTHERS]
    rows = measured({task: partial(task_row, task, seeds, table, args.jobs) for task in only}, only, args.json)
    return report(rows + share_row(rows), "every task by its name", args.json)


if __name__ == "__main__":
    sys.exit(main())
