"""Runs with agents of known skill, and studies that have verified them, made without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna

from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir
from studies.example_studies import add_trial, make_folder
from training.finished import make_run

# What CartPole's pole angle and angular velocity count: the better an agent, the longer it balances.
GOOD, MIDDLING, BAD = (1.0, 1.0), (1.0, 0.0), (-1.0, -1.0)
STEP = 2_000


def cartpole_run(base: Path, skill: tuple[float, float], **options: Any) -> RunDir:
    """A run whose agent pushes the cart towards where the pole falls, as far as its skill goes."""
    run = make_run(base, "CartPole-v1", hidden=[8], **options)
    checkpoints = Checkpoints(run.checkpoints)
    _, tree = checkpoints.load_latest()
    policy = {name: np.zeros_like(array) for name, array in tree["agent"]["policy"].items()}
    policy["actor.layers.0.weight"][0, 2:] = skill
    policy["actor.layers.1.weight"][:, 0] = (-1.0, 1.0)
    checkpoints.save(STEP, {**tree, "agent": {**tree["agent"], "policy": policy}}, score=1.0)
    return run


class SmallStudy:
    """A study in a folder, whose trials are verified one by one."""

    def __init__(self, studies_dir: Path, name: str = "demo") -> None:
        self.folder = studies_dir / name
        self.study: optuna.Study = make_folder(studies_dir, name)

    def verify(self, skill: tuple[float, float], value: float) -> RunDir:
        """Add a trial that was verified with two seeds; the second one has the better run."""
        number = add_trial(self.study, value)
        runs = [cartpole_run(self.folder / "runs", chosen) for chosen in (BAD, skill)]
        self.study.set_user_attr(
            f"rookery:verified:{number}",
            {
                "values": {"1000": value - 1, "1001": value},
                "iqm": value,
                "interval": [value - 1, value + 1],
                "runs": [str(run.path.relative_to(self.folder)) for run in runs],
            },
        )
        return runs[1]
