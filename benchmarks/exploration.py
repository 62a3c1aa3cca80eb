"""Coloured exploration noise in MountainCarContinuous-v0, where only a car that swings reaches its reward:

    python benchmarks/exploration.py [--only found sac dataset] [--seeds 3] [--first-seed 1] [--json FILE]

`found` is the share of the episodes with random actions that reach the goal; `sac` is the last evaluation, on 20
episodes, of SAC by its recipe after 30,000 steps. Both sides differ in `noise` alone. `dataset` has white noise, and
begins with 20 episodes of a rule that pushes where the car rolls. A figure is the median over seeds. Exits with 1 if a
figure misses what it must reach.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from learning import NEVER, quiet
from report import measured, parser_for, report

COLOURS = "pink", "gaussian"
STEPS = 30_000
NAMES = "observations", "actions", "rewards", "next_observations", "terminations", "truncations"


def run(learner: str, colour: str, seed: int, **options: Any) -> tuple[float, float]:
    """The last evaluation of a run, and the share of its episodes that reached the goal."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        result = rookery.train(
            "MountainCarContinuous-v0", learner=learner, num_envs=8, steps=STEPS, seed=seed, runs_dir=folder,
            evaluation={"episodes": 20, "max_episodes": 20, "every": NEVER}, checkpoints={"every": NEVER},
            monitor={"plot": False, "tensorboard": False, "episodes": True},
            **{learner: {"noise": colour, **options}},
        )  # fmt: skip
        lines = (Path(result.path) / "episodes.jsonl").read_text().splitlines()
    returns = [json.loads(line)["return"] for line in lines]
    return result.evaluation, float(np.mean(np.array(returns) > 0))


def found(seeds: range) -> list[Row]:
    """Without learning: every action is random."""
    shares = [[100 * run("td3", colour, seed, start_steps=STEPS)[1] for seed in seeds] for colour in COLOURS]
    return [_row("random actions reach the goal", shares, 20.0, " %")]


def learned(seeds: range) -> list[Row]:
    """By the recipe, which has pink noise, and with the default instead."""
    returns = [[run("sac", colour, seed)[0] for seed in seeds] for colour in COLOURS]
    return [_row("sac, mean return", returns, 90.0, "")]


def started(seeds: range) -> list[Row]:
    """With white noise and a dataset."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "steps.npz")
        mean = record(path, 20)
        returns = [run("sac", "gaussian", seed, dataset=path)[0] for seed in seeds]
    each = ", ".join(f"{value:.3g}" for value in returns)
    return [Row("sac with a dataset", each, f"the rule: {mean:.3g}", float(np.median(returns)), 90.0, unit="")]


def record(path: str, episodes: int) -> float:
    """Write episodes of a rule to a file; returns their mean return."""
    env, rows = gym.make("MountainCarContinuous-v0"), []
    for seed in range(episodes):
        seen, ended = env.reset(seed=seed)[0], False
        while not ended:
            action = np.sign(seen[1:]) + (seen[1:] == 0)
            after, reward, terminated, truncated, _ = env.step(action)
            rows.append((seen, action, reward, after, terminated, truncated))
            seen, ended = after, terminated or truncated
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    np.savez(path, **dict(zip(NAMES, columns, strict=True)))
    return float(columns[2].sum()) / episodes


def _row(measure: str, figures: list[list[float]], least: float, unit: str) -> Row:
    pink, white = (", ".join(f"{value:.3g}" for value in values) for values in figures)
    return Row(measure, f"pink: {pink}", f"gaussian: {white}", float(np.median(figures[0])), least, unit=unit)


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ["found", "sac", "dataset"])
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="(default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    rows = {"found": partial(found, seeds), "sac": partial(learned, seeds), "dataset": partial(started, seeds)}
    return report(measured(rows, args.only, args.json), "exploration", args.json)


if __name__ == "__main__":
    sys.exit(main())
