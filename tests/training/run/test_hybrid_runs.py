"""Runs with Dict and Tuple actions, with masks of a part: on every backend, resumed, evaluated, checked and shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.training.run.callbacks import Result
from rookery.training.show.episode import ShownAgent
from training.run.hybrid_world import Throw
from training.runs import differences, last_state, small

WORLD = f"{Path(__file__).parent / 'hybrid_world.py'}:Throw"
QUICK = {"rollout_length": 16, "epochs": 2, "hidden": [16]}


def train(folder: Path, **options: Any) -> Result:
    wish = {"backend": "serial", "steps": 512, "ppo": QUICK, "groups": 1, **options}
    return rookery.train({**small("ppo", folder, **wish), "world": WORLD})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return train(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
def test_backends_agree(finished: Result, tmp_path: Path) -> None:
    """In processes the same weights are learned, bit for bit."""
    there = train(tmp_path, backend="process", workers=2)
    assert not differences(last_state(finished.path), last_state(there.path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [{}, pytest.param({"recurrent": 8}, marks=pytest.mark.slow)], ids=["plain", "recurrent"]
)
def test_a_resumed_run_goes_on_exactly(more: dict[str, Any], finished: Result, tmp_path: Path) -> None:
    """Half a run and its other half are the run; masks of parts are part of what is saved."""
    options: dict[str, Any] = {"ppo": {**QUICK, **more}}
    whole = train(tmp_path / "whole", **options) if more else finished
    train(tmp_path / "halves", steps=256, **options)
    resumed = rookery.resume("latest", str(tmp_path / "halves"), steps=512)
    assert not differences(last_state(whole.path), last_state(resumed.path))


def test_a_loaded_agent_acts_in_the_env(finished: Result) -> None:
    """As the README loads one, and as videos ask for the actions of single envs."""
    agent, env = rookery.load(finished.path), Throw()
    seen, info = env.reset(seed=1)
    shown = ShownAgent(agent, seed=1)
    shown.begin(0, episode=0)
    for _ in range(5):
        (action,) = shown.act([0], [seen], [info])
        seen, _, _, _, info = env.step(action)
    batch = agent.act(np.eye(3, dtype=np.float32), mask={"arm": np.eye(3)})
    assert batch["arm"].tolist() == [1, 2, 3]
    assert batch["throw"][0].shape == (3, 1)
    single, _ = agent.predict(seen, deterministic=True)
    assert env.action_space.contains(single)


@pytest.mark.slow
def test_the_shell(finished: Result, capsys: pytest.CaptureFixture[str]) -> None:
    """`eval`, `check` and `export` know such a run; a file for NumPy alone is rejected in one sentence."""
    where = ["--runs-dir", str(finished.path.parent)]
    assert main(["eval", finished.run_name, "--episodes", "2", *where]) == 0
    assert "mean return" in capsys.readouterr().out
    assert main(["check", WORLD]) == 0
    assert main(["export", finished.run_name, "--standalone", *where]) == 2
    assert "Dict actions cannot be written as a file for NumPy alone" in capsys.readouterr().err
