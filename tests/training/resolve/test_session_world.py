"""Worlds that are objects of a Python session, as in a notebook."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.errors import UsageError, WorldError
from rookery.training.resolve.session_world import session_world
from training.runs import QUIET

CELL = """
class Cell(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=10):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), 1.0, self.t >= self.length, False, {}
"""


@pytest.fixture
def cell() -> type[gym.Env]:
    """A class as a notebook's cell defines it."""
    scope: dict[str, Any] = {"gym": gym, "np": np, "__name__": "__main__"}
    exec(CELL, scope)
    return scope["Cell"]


def train(world: Any, folder: Path, **options: Any) -> rookery.training.run.callbacks.Result:
    ppo = {"rollout_length": 8, "epochs": 1, "hidden": [8], "threads": 1}
    base: dict[str, Any] = {"steps": 64, "monitor": QUIET, "evaluation": {"episodes": 1}, "learner": "ppo", "ppo": ppo}
    return rookery.train(world, runs_dir=folder, **{"num_envs": 2, **base, **options})


def make_cell(kind: type[gym.Env], length: int) -> gym.Env:
    return kind(length)


@pytest.mark.slow
def test_what_is_trained(cell: type[gym.Env], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A class of a cell, a lambda, a partial, an instance, a vector env: each with one note, and no command for the
    shell, which could not find the world."""
    worlds = {
        "class": cell,
        "lambda": lambda: cell(5),
        "partial": functools.partial(make_cell, cell, 5),
        "instance": cell(5),
        "wrapped": gym.wrappers.TransformReward(cell(5), lambda reward: 2 * reward),
        "vector": gym.vector.SyncVectorEnv([lambda: cell(5)] * 2),
    }
    for name, world in worlds.items():
        result = train(world, tmp_path, backend="serial", name=name)
        assert (result.path / "metrics.jsonl").read_text().count("cannot be resumed from the shell") == 1
        assert result.evaluation == {"class": 10.0, "wrapped": 10.0}.get(name, 5.0)
        assert json.loads((result.path / "config.json").read_text())["world"].startswith("object:")
    assert "rookery resume" not in capsys.readouterr().out
    assert rookery.load("lambda", tmp_path).act(np.zeros((1, 2), np.float32)).shape == (1,)


def test_in_processes(cell: type[gym.Env], tmp_path: Path) -> None:
    """Copies of an instance, and closures, are sent to workers."""
    for world in (cell(5), lambda: cell(5)):
        assert train(world, tmp_path, backend="process", workers=2).evaluation == 5.0


def test_it_is_resumed_with_the_object(cell: type[gym.Env], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = train(lambda: cell(5), tmp_path, backend="serial").path
    assert main(["resume", str(run)]) == 2
    assert "an object of a Python session" in capsys.readouterr().err
    with pytest.raises(WorldError, match="object of a Python session"):
        rookery.resume(run, steps=128)
    assert rookery.resume(run, steps=128, world=lambda: cell(5)).total_steps == 128
    named = train("CartPole-v1", tmp_path)
    with pytest.raises(UsageError, match="omit `world`"):
        rookery.resume(named.path, steps=128, world=cell)


def test_what_gymnasium_can_make_again_has_its_id() -> None:
    """With the options that it was made with: such a run can be resumed anywhere."""
    env = gym.make("CartPole-v1", max_episode_steps=20, render_mode="rgb_array")
    assert (session_world(env).name, session_world(env).options) == ("CartPole-v1", {"max_episode_steps": 20})
    envs = gym.make_vec("FrozenLake-v1", num_envs=3, map_name="8x8", vectorization_mode="sync")
    found = session_world(envs)
    assert (found.name, found.num_envs, found.options) == ("FrozenLake-v1", 3, {"map_name": "8x8"})
    engine = rookery.make_vec("CartPole-v1", 2, backend="serial")
    assert (session_world(engine).name, session_world(engine).num_envs) == ("CartPole-v1", 2)
    assert session_world(gym.spec("CartPole-v1")).name == "CartPole-v1"
    for made in (env, envs, engine):
        made.close()


def test_wrappers_are_kept() -> None:
    """Those that Gymnasium records are made again; others are copied."""
    env = gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1"))
    found = session_world(env)
    assert found.name == "object:CartPole-v1-wrapped"
    engine = rookery.make_vec(found.source, 2, backend="serial")
    assert engine.single_observation_space.shape == (5,)
    engine.close()


def test_what_cannot_be_a_world() -> None:
    with pytest.raises(WorldError, match="is not a world"):
        session_world(3)
    env = gym.Env()
    env.lock = (number for number in range(3))  # type: ignore[attr-defined]
    with pytest.raises(WorldError, match="cannot be copied"):
        session_world(env).source.make(0)
