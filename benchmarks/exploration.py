"""Coloured exploration noise in MountainCarContinuous-v0, where only a car that swings reaches its reward:

    python benchmarks/exploration.py [--only found sac td3] [--seeds 3] [--first-seed 1] [--json FILE]

`found` is the share of the episodes with random actions that reach the goal. The other rows are the last evaluation, on
20 episodes: SAC by its recipe, with 30,000 steps, and TD3 with nearly the same settings. Both sides differ in `noise`
alone, and a figure is the median over seeds. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from learning import NEVER, quiet
from report import measured, parser_for, report

COLOURS = "pink", "gaussian"
STEPS = 30_000
# Without updates, every action is random.
FOUND: dict[str, Any] = {"start_steps": STEPS}
LEARNED: dict[str, dict[str, Any]] = {
    "sac": {},
    "td3": {
        "gamma": 0.999, "updates_per_step": 0.25, "start_steps": 4000, "hidden": [64, 64], "tau": 0.01,
        "exploration_noise": 0.3,
    },
}  # fmt: skip


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
    """Without learning."""
    shares = [[100 * run("td3", colour, seed, **FOUND)[1] for seed in seeds] for colour in COLOURS]
    return [_row("random actions reach the goal", shares, 20.0, " %")]


def learned(learner: str, seeds: range) -> list[Row]:
    """The same learner with both."""
    returns = [[run(learner, colour, seed, **LEARNED[learner])[0] for seed in seeds] for colour in COLOURS]
    return [_row(f"{learner}, mean return", returns, 90.0, "")]


def _row(measure: str, figures: list[list[float]], least: float, unit: str) -> Row:
    pink, white = (", ".join(f"{value:.3g}" for value in values) for values in figures)
    return Row(measure, f"pink: {pink}", f"gaussian: {white}", float(np.median(figures[0])), least, unit=unit)


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ["found", *LEARNED])
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="(default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    rows: dict[str, Any] = {"found": partial(found, seeds)}
    rows |= {name: partial(learned, name, seeds) for name in LEARNED}
    return report(measured(rows, args.only, args.json), "exploration", args.json)


if __name__ == "__main__":
    sys.exit(main())
