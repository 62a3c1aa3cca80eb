"""Runs that leave another one at a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import ConfigError, RunError
from rookery.training.storage.checkpoint import Checkpoints
from training.rewind.truth import comparable
from training.runs import differences, small


def last(run: Path) -> dict[str, Any]:
    """All of the last checkpoint, without clocks."""
    return comparable(Checkpoints(run / "checkpoints").load_latest()[1])


def figures(run: Path) -> list[dict[str, Any]]:
    """The episodes that a run has recorded, without clocks."""
    rows = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    return [{name: row[name] for name in ("episode", "env", "return", "length")} for row in rows]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> rookery.Result:
    often = {"evaluation": {"episodes": 1, "every": 128}, "checkpoints": {"every": 128}}
    return rookery.train(small("ppo", tmp_path_factory.mktemp("parent"), steps=500, **often))  # 512 are made


@pytest.mark.few(1)
@pytest.mark.parametrize("step", [384, 200, 508])
def test_a_fork_with_nothing_changed_equals_its_parent(step: int, parent: rookery.Result) -> None:
    """From a checkpoint, from the middle of a rollout, and from that of the last one, beyond the wanted steps."""
    made = rookery.fork(parent, at=step, runs_dir=parent.path.parent, name=f"same-{step}")
    assert made.total_steps == parent.total_steps == 512
    assert not differences(last(made.path), last(parent.path))
    assert figures(made.path) == figures(parent.path)


def test_an_off_policy_fork_equals_its_parent(tmp_path: Path) -> None:
    result = rookery.train(small("dqn", tmp_path, steps=320, checkpoints={"every": 64}))
    made = rookery.fork(result, at=220, runs_dir=tmp_path)
    assert not differences(last(made.path), last(result.path))


def test_a_fork_shares_the_trunk(parent: rookery.Result) -> None:
    """A checkpoint of the parent takes no space twice; the folder names the parent and the moment."""
    made = rookery.fork(parent, at=384, runs_dir=parent.path.parent, name="shared", ppo={"learning_rate": 0.05})
    of_parent, of_fork = (run / "checkpoints/step-000000000384/agent.safetensors" for run in (parent.path, made.path))
    assert of_parent.samefile(of_fork)
    facts = json.loads((made.path / "run.json").read_text())["parent"]
    assert (facts["run"], facts["step"]) == (parent.run_name, 384)
    assert json.loads((made.path / "config.json").read_text())["ppo"]["learning_rate"] == 0.05
    steps = [json.loads(line)["step"] for line in (made.path / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps) and steps[0] == 0
    assert differences(last(made.path)["agent"]["policy"], last(parent.path)["agent"]["policy"])
    with rookery.rewind(made.path, at=400) as live:
        assert live.exact and live.learner.options.learning_rate == 0.05
    with pytest.raises(RunError, match="fork"):
        rookery.rewind(made.path, at=300)


@pytest.mark.slow
def test_another_seed_changes_what_follows(parent: rookery.Result) -> None:
    """The same seed gives the same future, another one another future."""
    one, same, other = (
        rookery.fork(parent, at=200, runs_dir=parent.path.parent, name=f"seed-{k}", seed=seed)
        for k, seed in enumerate((7, 7, 8))
    )
    assert not differences(last(one.path), last(same.path))
    assert differences(last(one.path)["agent"]["policy"], last(other.path)["agent"]["policy"])
    assert figures(one.path)[:3] == figures(parent.path)[:3]
    with rookery.rewind(one.path, at=256) as live:
        assert live.exact


def test_keys_on_which_the_checkpoint_depends_are_refused(parent: rookery.Result) -> None:
    with pytest.raises(ConfigError, match="hidden"):
        rookery.fork(parent, at=200, runs_dir=parent.path.parent, ppo={"hidden": [8]})
    assert not list(parent.path.parent.glob("*-fork*"))
