"""A run is resolved once, whether it is new, resumed, or only looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rookery
from rookery.config import build_config, validation
from rookery.engine.env_factory import EnvFactory
from rookery.errors import OptionError, WorldError
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.resolve import resolved_run, world_choice
from rookery.training.resolve.resolved_run import resolve_run
from training.runs import QUIET

pytestmark = pytest.mark.usefixtures("all_allowed", "plain_python")

WORLD = """
import gymnasium as gym
import numpy as np


class Walk(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, size=1):
        self.size = size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps >= 5, False, {}
"""


@pytest.fixture
def walk(tmp_path: Path) -> str:
    (tmp_path / "walk.py").write_text(WORLD)
    return f"{tmp_path / 'walk.py'}:Walk"


class Counts:
    """How often a config is validated, a world looked up, and an env built, in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configs: list[dict] = []
        self.worlds: list[str] = []
        self.envs: list[int] = []
        validated, find, make = validation._validated, world_choice.find, EnvFactory.make

        def count_config(given, where):
            self.configs.append(dict(given))
            return validated(given, where)

        def count_world(world, *args):
            self.worlds.append(world)
            return find(world, *args)

        def count_env(factory, index):
            self.envs.append(os.getpid())
            return make(factory, index)

        monkeypatch.setattr(validation, "_validated", count_config)
        monkeypatch.setattr(resolved_run, "find", count_world)
        monkeypatch.setattr(EnvFactory, "make", count_env)

    def all(self) -> tuple[int, int, int]:
        """Validations of configs with the user's seed, worlds, envs; counted again from here on."""
        counted = sum(given.get("seed") == 77 for given in self.configs), len(self.worlds), len(self.envs)
        self.configs.clear(), self.worlds.clear(), self.envs.clear()
        return counted


@pytest.mark.parametrize(
    "keys",
    [{"learner": "ppo", "backend": "process", "workers": 1}, {"backend": "process", "workers": 1}, {"learner": "ppo"}],
    ids=["all given", "learner open", "engine open"],
)
def test_a_new_run_is_resolved_once(walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict) -> None:
    """One validation of what the user gave, one lookup of the world, and no env in this process."""
    counts = Counts(monkeypatch)
    run = resolve_run(build_config(walk, num_envs=2, seed=77, **keys))
    assert counts.all() == (1, 1, 0)
    assert run.config.learner == "ppo" and run.num_envs == 2 and run.world is run.env_world
    assert (run.seat is None) == (len(keys) == 3)  # then the engine's first env tells the spaces


def test_training_resuming_and_evaluating_resolve_once(
    walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them validates the config once, looks the world up once, and builds all envs in workers."""
    counts = Counts(monkeypatch)
    keys = {"num_envs": 2, "backend": "process", "workers": 1, "steps": 64, "runs_dir": tmp_path, "monitor": QUIET}
    ppo = {"rollout_length": 16, "hidden": [8], "threads": 1}
    result = rookery.train(walk, seed=77, learner="ppo", ppo=ppo, evaluation={"episodes": 1}, **keys)
    assert counts.all() == (1, 1, 0)
    (result.path / "summary.json").unlink()  # as if it had been killed at its end: else there is nothing to do
    rookery.resume(result.path)
    assert counts.all() == (1, 1, 0)
    evaluate(result.path, episodes=1)
    assert counts.all() == (1, 1, 0)


def test_the_length_of_episodes_is_an_option_of_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world is looked up once all the same."""
    counts = Counts(monkeypatch)
    run = resolve_run(build_config("CartPole-v1", episode_length=7, seed=77))
    assert counts.all() == (1, 1, 0)
    assert run.world.env_kwargs == run.config.world_options == {"max_episode_steps": 7}
    assert run.config.episode_length is None and run.world.kernel_world.values["time_limit"] == 7


def test_an_option_that_the_world_does_not_take_is_explained(walk: str, tmp_path: Path) -> None:
    """Wherever it comes out: in the worker that measures, or in the engine's first env."""
    for keys in ({}, {"learner": "ppo", "num_envs": 2, "backend": "serial"}):
        with pytest.raises(OptionError, match=r"has no option 'colour' \(it has size\)"):
            rookery.train(walk, world_options={"colour": 1}, runs_dir=tmp_path / "runs", **keys)
    assert not (tmp_path / "runs").exists()


def test_a_world_for_one_player_has_no_policy_as_opponent(walk: str) -> None:
    with pytest.raises(WorldError, match="is not a two-player game"):
        resolve_run(build_config(walk, opponents="self"))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("given", "envs", "rollout"), [({}, 128, 64), ({"num_envs": 2}, 2, 128), ({"compiled": False}, 8, 128)]
)
def test_a_compiled_world_has_more_envs_unless_their_number_is_given(given, envs, rollout):
    run = resolve_run(build_config({"world": "gameboy", "device": "cpu", **given}))
    assert (run.config.num_envs, run.config.ppo.rollout_length, run.config.steps) == (envs, rollout, 300_000)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_recipe_may_have_options_of_the_world(compiled: bool) -> None:
    """They are in the spaces, the config and a note; what the user gives has priority."""
    given = {"world": "Ant-v5", "learner": "xqc", "compiled": compiled}
    run = resolve_run(build_config(given))
    assert run.config.world_options == {"include_cfrc_ext_in_observation": False}
    assert run.seat is None or run.seat.observation_space.shape == (27,)
    assert "include_cfrc_ext_in_observation=false" in run.world.note
    asked = resolve_run(build_config({**given, "world_options": {"include_cfrc_ext_in_observation": True}}))
    assert asked.config.world_options == {"include_cfrc_ext_in_observation": True}
    assert "cfrc" not in asked.world.note
    assert "cfrc" not in resolve_run(build_config({**given, "learner": "sac"})).world.note
