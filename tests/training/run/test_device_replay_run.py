"""Runs of off-policy learners beside envs on their device. Here that is the CPU: the GPU's code as plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.training.storage.checkpoint import Checkpoints

CARTPOLE, PENDULUM = "rookery/CartPole-v1", "rookery/Pendulum-v1"
OPTIONS: dict[str, Any] = {
    "backend": "cuda",
    "device": "cpu",
    "num_envs": 4,
    "steps": 240,
    "seed": 5,
    "evaluation": {"every": 10_000, "episodes": 1, "max_episodes": 1},
    "monitor": {"verbose": False, "tensorboard": False, "episodes": True},
}
SMALL: dict[str, Any] = {"hidden": [8, 8], "batch_size": 8, "start_steps": 40, "buffer_size": 150}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "dqn": (CARTPOLE, {"epsilon_decay": 0.9}),
    "sac": (PENDULUM, {"n_step": 2, "normalise_observations": True, "updates_per_step": 0.5}),
    "td3": (PENDULUM, {"noise": "pink", "prioritised": True, "updates_each": "round", "updates_per_step": 3}),
    "xqc": (PENDULUM, {"n_step": 2, "critic_hidden": [8, 8], "updates_per_step": 0.5}),
}


def train(folder: Path, name: str, learner: str, **options: Any) -> rookery.Result:
    world, more = CASES[learner]
    settings = {**OPTIONS, "learner": learner, learner: {**SMALL, **more}, **options}
    return rookery.train(world, runs_dir=folder, name=name, **settings)


def tree_of(folder: Path, name: str) -> dict[str, Any]:
    return Checkpoints(folder / name / "checkpoints", 3).load_latest()[1]


def arrays(tree: Any, path: str = "") -> dict[str, np.ndarray]:
    if isinstance(tree, dict):
        return {name: value for key, part in tree.items() for name, value in arrays(part, f"{path}/{key}").items()}
    return {path: tree} if isinstance(tree, np.ndarray) else {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner", ["td3", "xqc", pytest.param("sac", marks=pytest.mark.slow), pytest.param("dqn", marks=pytest.mark.slow)]
)
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path, learner: str) -> None:
    """To the bit: weights, optimizer, replay buffer with its priorities, unfinished transitions, envs."""
    train(tmp_path, "whole", learner)
    train(tmp_path, "parts", learner, steps=120)
    resumed = rookery.resume("parts", tmp_path, steps=240)
    assert resumed.total_steps == 240
    whole, parts = tree_of(tmp_path, "whole"), tree_of(tmp_path, "parts")
    assert whole["learner"]["updates"] == parts["learner"]["updates"] > 40
    found, wanted = arrays(parts), arrays(whole)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_metrics_and_episodes_are_written(tmp_path: Path) -> None:
    """As those of other runs."""
    result = train(tmp_path, "run", "dqn", steps=400)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    progress = [line for line in lines if line["kind"] == "progress" and "loss/error" in line]
    assert progress[-1]["episodes"] == result.episodes > 4 and progress[-1]["updates"] == 90
    assert np.isfinite(progress[-1]["episode/return"]) and np.isfinite(progress[-1]["loss/value"])


class Halving(rookery.Callback):
    """Changes an option in the middle."""

    def on_rollout(self, run: Any) -> None:
        if run.learner.updates and run.learner.options.gamma != 0.5:
            run.set_options(gamma=0.5)


@pytest.mark.slow
def test_a_changed_option_holds_in_the_next_round(tmp_path: Path) -> None:
    """What is stored from then on has the new discount."""
    train(tmp_path, "run", "dqn", steps=600, callbacks=[Halving()])
    discounts = set(tree_of(tmp_path, "run")["learner"]["replay"]["arrays"]["outcomes"][:, 1].tolist())
    assert discounts & {0.125, 0.25, 0.5}
