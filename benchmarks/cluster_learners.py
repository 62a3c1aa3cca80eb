"""What a second learner is worth: steps per second of PPO with two learners over one, each on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cluster_runs import CARTPOLE, on_ray, running
from engine_rows import Row, ratio_row

NETS = {"64 x 64": ([64, 64], 0.0), "512 x 512": ([512, 512], 1.3)}  # and what the ratio must reach
ENVS, LENGTH, MINIBATCHES = 64, 128, 4


def learners_rows(folder: Path, turns: int, seconds: float) -> Iterator[Row]:
    """With small nets, whose gradients take less time than their way, and with large ones. One cluster at a time."""
    for title, (hidden, least) in NETS.items():
        rates: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(turns):
            for learners, found in rates.items():
                name = f"{hidden[0]}-{learners}-{turn}"
                found.append(_rate(folder, name, learners, hidden, seconds))
        what = f"PPO, nets of {title}, minibatches of {ENVS * LENGTH // MINIBATCHES} rows: two learners over one"
        yield ratio_row(what, np.array(rates[2]), np.array(rates[1]), least)


def _rate(folder: Path, name: str, learners: int, hidden: list[int], seconds: float) -> float:
    options = {"rollout_length": LENGTH, "minibatches": MINIBATCHES, "epochs": 4, "hidden": hidden, "threads": 1}
    cluster: dict[str, Any] = {**on_ray(1)["cluster"], "learners": learners}
    with running({**CARTPOLE, "num_envs": ENVS, "ppo": options, "cluster": cluster}, folder, name) as run:
        run.wait_rollouts(3)
        rate = run.rate_for(seconds)
        run.pause(False)
        run.interrupt()
    return rate
