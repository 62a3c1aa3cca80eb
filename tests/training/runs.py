"""Small runs for the tests of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from rookery.training.run.callbacks import Result
from rookery.training.storage.checkpoint import Checkpoints

QUIET = {"panel": False, "plot": False, "tensorboard": False}
SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"rollout_length": 16, "epochs": 2, "hidden": [16]},
    "sac": {"hidden": [16], "batch_size": 16, "start_steps": 64, "buffer_size": 400, "updates_per_step": 0.5},
    "dqn": {"hidden": [16], "batch_size": 16, "start_steps": 64, "buffer_size": 400},
    "pqn": {
        "rollout_length": 16, "epochs": 2, "hidden": [16], "epsilon_start": 0.2, "epsilon_end": 0.2,
        "learning_rate_schedule": "constant",
    },
}  # fmt: skip


def small(learner: str, folder: Path, **options: Any) -> dict[str, Any]:
    """The configuration of a run that takes a second: constant schedules, two episodes an evaluation."""
    world = "Pendulum-v1" if learner == "sac" else "CartPole-v1"
    section = {**SMALL[learner], **options.pop(learner, {}), "threads": 1}
    base = {
        "world": world,
        "learner": learner,
        "num_envs": 4,
        "steps": 1024,
        "seed": 5,
        "runs_dir": str(folder),
        "monitor": QUIET,
        "evaluation": {"episodes": 1, "every": 10_000},
        "checkpoints": {"every": 256},
    }
    return {**base, **options, learner: section}


def train(learner: str, folder: Path, **options: Any) -> Result:
    """Such a run, to its end."""
    return rookery.train(small(learner, folder, **options))


def last_state(run: Path) -> dict[str, Any]:
    """What decides how a run goes on, from its last checkpoint."""
    _, tree = Checkpoints(run / "checkpoints").load_latest()
    return {"policy": tree["agent"]["policy"], "learner": tree["learner"]}


def notes(path: Path) -> list[str]:
    """What the run has said."""
    events = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [event["text"] for event in events if event["kind"] == "note"]


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two trees are not bit for bit the same."""
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return [f"{path}: {sorted(one.keys() ^ other.keys())}"]
        return [found for key in one for found in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, np.ndarray):
        return [] if one.dtype == other.dtype and one.tobytes() == other.tobytes() else [path]
    return [] if one == other else [f"{path}: {one} and {other}"]
