"""Moments of runs whose envs are on the learner's device: here that is the CPU, and runs the GPU's code as Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rookery
from training.rewind.truth import comparable, state_at
from training.runs import differences, small


def without_list(tree: dict[str, Any]) -> dict[str, Any]:
    """Which episodes are listed depends on when somebody looked; their number does not."""
    return {**tree, "loop": {**tree["loop"], "episodes": tree["loop"]["episodes"]["count"]}}


@pytest.mark.slow
@pytest.mark.parametrize(("learner", "steps"), [("ppo", (0, 256, 256)), ("dqn", (192, 320, 496))])
def test_a_moment_equals_a_run_that_was_stopped_there(learner: str, steps: tuple[int, ...], tmp_path: Path) -> None:
    """On a device a rollout is made as a whole, so that the moment is at its beginning."""
    often = {"evaluation": {"episodes": 1, "every": 512}, "checkpoints": {"every": 128}}
    config = small(learner, tmp_path / "runs", steps=512, num_envs=16, device="cpu", backend="cuda", **often)
    result = rookery.train(config)
    for at, step in zip((200, 333, 500), steps, strict=True):
        with rookery.rewind(result, at=at) as live:
            assert (live.step, live.exact) == (step, True)
            again = without_list(comparable(live.state()))
        assert not differences(again, without_list(state_at(config, step, tmp_path / str(at))))
