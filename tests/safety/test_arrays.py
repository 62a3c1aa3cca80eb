"""Arrays of a checkpoint by which compiled code finds its way: beyond their bounds lies other memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import CheckpointError
from rookery.learners.sumtree import SumTree
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.checkpoint_files import check_types
from rookery.training.storage.run_dir import RunDir
from training import runs

Tamper = Callable[[dict[str, Any]], Any]
LIES: dict[str, Tamper] = {
    "heads": lambda learner: learner["pending"]["heads"].fill(10**6),
    "counts": lambda learner: learner["pending"]["counts"].fill(2**62),
    "negative counts": lambda learner: learner["pending"]["counts"].fill(-5),
    "short queues": lambda learner: learner["pending"].update(rewards=learner["pending"]["rewards"][:1]),
    "another type": lambda learner: learner["pending"].update(heads=learner["pending"]["heads"].astype(np.int8)),
    "priorities": lambda learner: learner.update(priorities=np.ones(10**6)),
    "actions": lambda learner: learner["pending"]["actions"].fill(10**12),
    "size": lambda learner: learner["replay"].update(size=10**9),
    "cursor": lambda learner: learner["replay"].update(cursor=-1),
}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learns from replay, in n steps."""
    return runs.train("dqn", tmp_path_factory.mktemp("replayed"), steps=256).path


@pytest.mark.few(2)
@pytest.mark.parametrize("lie", LIES)
def test_places_beyond_their_bounds_are_refused(replayed: Path, lie: str) -> None:
    """As a CheckpointError, before anything is computed."""
    checkpoints = Checkpoints(RunDir(replayed).checkpoints)
    step, tree = checkpoints.load_latest()
    hostile = copy.deepcopy(tree)
    hostile["learner"]["pending"] = {name: np.array(part) for name, part in hostile["learner"]["pending"].items()}
    LIES[lie](hostile["learner"])
    path = checkpoints.save(step, hostile)
    try:
        with pytest.raises(CheckpointError):
            rookery.resume(replayed, steps=320)
    finally:
        checkpoints.save(step, tree)
        assert path.parent == checkpoints.folder


def test_a_rollout_that_is_further_than_its_end(run: RunDir) -> None:
    checkpoints = Checkpoints(run.checkpoints)
    step, tree = checkpoints.load_latest()
    hostile = copy.deepcopy(tree)
    noise = np.zeros((16, 4, 2), np.float32)
    hostile["learner"]["rollout"] = {
        "arrays": {"noise": noise},
        "clocks": {"0": 10**6},
        "answered": 4,
        "final_steps": [],
    }
    checkpoints.save(step, hostile)
    with pytest.raises(CheckpointError):
        rookery.resume(run.path, steps=640)


def test_a_tree_takes_no_more_priorities_than_it_has_places() -> None:
    with pytest.raises(CheckpointError, match="do not fit 3 transitions"):
        SumTree(3).load(np.ones(5))


def test_trees_are_compared_by_the_kinds_of_their_values() -> None:
    """Numbers for numbers, arrays of the same type and shape; what begins empty may grow."""
    own = {"a": 1, "b": 0.5, "c": np.zeros(3), "d": [], "e": None, "f": np.zeros(0), "g": [1, 2], "h": {"x": True}}
    fine = {"a": 7, "b": 2, "c": np.ones(3), "d": ["x", 1], "e": 1.5, "f": np.ones((2, 2)), "g": [3, 4], "z": object()}
    check_types(fine, own)
    for key, value in {
        "a": "7", "b": None, "c": np.ones(4), "d": [[]], "e": "x", "f": np.ones(2, np.int64), "g": [1], "h": {"x": 1},
    }.items():  # fmt: skip
        with pytest.raises(CheckpointError, match=f"'{key}"):
            check_types({**fine, key: value}, own)
