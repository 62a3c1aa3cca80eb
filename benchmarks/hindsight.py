"""Hindsight replay in a world with goals and sparse rewards, beside the same learners without it:

    python benchmarks/hindsight.py [--only sac td3 xqc] [--seeds 5] [--first-seed 1] [--json FILE]

`reach_world.py` has the world: 3 numbers for the place, 3 for the goal, and -1 for every step away from it, 50 in an
episode. Returns are medians over seeds of the last evaluation, on 50 episodes, after 20,000 steps.
Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

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
from reach_world import Reach
from report import measured, parser_for, report

LEAST = -15.0  # of a policy that goes straight to the goal: -10, on average
SMALL: dict[str, Any] = {
    "hidden": [64, 64], "learning_rate": 1e-3, "gamma": 0.95, "batch_size": 128, "updates_per_step": 0.5,
    "start_steps": 1000,
}  # fmt: skip
LEARNERS: dict[str, dict[str, Any]] = {"sac": {}, "td3": {}, "xqc": {"critic_hidden": [128, 128]}}


def trained(learner: str, hindsight: int, seed: int) -> float:
    """The last evaluation of a run."""
    options = {**SMALL, **LEARNERS[learner], "hindsight": hindsight}
    with tempfile.TemporaryDirectory() as folder, quiet():
        result = rookery.train(
            Reach, learner=learner, num_envs=8, steps=20_000, seed=seed, runs_dir=folder,
            evaluation={"episodes": 50, "max_episodes": 50, "every": NEVER}, checkpoints={"every": NEVER},
            monitor={"plot": False, "tensorboard": False}, **{learner: options},
        )  # fmt: skip
    return result.evaluation


def row(learner: str, seeds: range) -> list[Row]:
    """Both, seed by seed."""
    found = [[trained(learner, copies, seed) for copies in (4, 0)] for seed in seeds]
    ours, theirs = zip(*found, strict=True)
    each, without = (", ".join(f"{value:.4g}" for value in values) for values in (ours, theirs))
    return [
        Row(f"{learner} with hindsight, Reach", each, f"without: {without}", float(np.median(ours)), LEAST, unit="")
    ]


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, LEARNERS)
    parser.add_argument("--seeds", type=int, default=5, help="how many (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="(default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    rows = {name: partial(row, name, seeds) for name in LEARNERS}
    return report(measured(rows, args.only, args.json), "hindsight", args.json)


if __name__ == "__main__":
    sys.exit(main())
