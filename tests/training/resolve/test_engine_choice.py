"""How many envs a run has if nobody says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces as gs

from rookery.config import build_config
from rookery.engine import machine
from rookery.engine.autotune import Choice
from rookery.learners.registry import PPOOptions
from rookery.training.resolve import engine_choice
from rookery.training.resolve.engine_choice import (
    MIN_UPDATES,
    most_envs,
    recall_useful_envs,
    remember_useful_envs,
    with_engine,
)
from rookery.training.resolve.recipes import recipe_for, small_image_options, usual_options
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.resolve.world_choice import find

pytestmark = pytest.mark.usefixtures("all_allowed")

WORLD = "Blackjack-v1"


def updates(config):
    """How many updates a run makes."""
    return config.steps // (config.num_envs * config.ppo.rollout_length)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing measured before counts here."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))


@pytest.mark.parametrize("steps", [20_000, 60_000, 100_000, 1_000_000])
@pytest.mark.parametrize("cores", [2, 16])
def test_enough_updates_are_left(monkeypatch, steps, cores):
    """Some hundred, or as many as updates of 512 steps allow; every core has an env, and rollouts are not too short."""
    monkeypatch.setattr(engine_choice, "usable_cores", lambda: cores)
    config = build_config(WORLD, steps=steps, learner="ppo")
    envs = most_envs(config)
    chosen = with_engine(config, Choice("process", envs, cores, ""))
    assert envs >= cores
    assert updates(chosen) >= min(0.9 * MIN_UPDATES, steps // 512)
    assert 16 <= chosen.ppo.rollout_length <= 128


def test_a_given_rollout_length_is_kept():
    """Then there are fewer envs."""
    config = build_config(WORLD, steps=100_000, learner="ppo", ppo={"rollout_length": 256})
    assert most_envs(config) == 4
    assert with_engine(config, Choice("serial", 4, 1, "")).ppo.rollout_length == 256


def test_learners_with_a_replay_buffer_have_no_such_limit():
    assert most_envs(build_config(WORLD, learner="dqn")) is None


@pytest.mark.slow
def test_the_same_command_makes_the_same_run(monkeypatch):
    """Even if a step seems to take ten times as long the next time."""
    seen = []
    for factor in (1.0, 10.0):
        monkeypatch.setattr("rookery.engine.autotune.TARGET_ROUND", 400e-6 / factor)
        run = resolve_run(build_config("Acrobot-v1", compiled=False, num_envs="auto", learner="dqn"))
        seen.append((run.config.num_envs, run.title))
    assert seen[0] == seen[1]


def test_more_workers_than_remembered_envs_get_an_env_each():
    """The second run as well as the first."""
    remember_useful_envs(find(WORLD), 2)
    run = resolve_run(build_config(WORLD, learner="dqn", workers=3, backend="process"))
    assert (run.config.num_envs, run.config.workers) == (3, 3)


def test_what_is_remembered_is_of_this_world_on_this_machine(tmp_path, monkeypatch):
    """Other options, another file or other cores are measured again; a damaged file is not an error."""
    file = tmp_path / "env.py"
    file.write_text("import gymnasium as gym\nclass Env(gym.Env): pass\n")
    here = find(f"{file}:Env")
    remember_useful_envs(here, 6)
    remember_useful_envs(find(WORLD), 32)
    assert (recall_useful_envs(here), recall_useful_envs(find(WORLD))) == (6, 32)
    assert recall_useful_envs(find(WORLD, options={"sab": True})) is None
    file.write_text(file.read_text() + "# changed\n")
    assert recall_useful_envs(here) is None
    monkeypatch.setattr(engine_choice, "usable_cores", lambda: machine.usable_cores() + 1)
    assert recall_useful_envs(find(WORLD)) is None
    monkeypatch.undo()
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    (tmp_path / "useful_envs.json").write_text('{"a": ')
    assert recall_useful_envs(find(WORLD)) is None


def test_recipes_of_gymnasium_tasks_are_taken():
    """By any version; an episode's limit among them, unless one is given."""
    assert (
        recipe_for("Taxi-v4", "ppo", kernel=False)["num_envs"] == recipe_for("Taxi-v3", "ppo", kernel=False)["num_envs"]
    )
    run = resolve_run(build_config("CliffWalking-v1", backend="serial"))
    assert (run.config.learner, run.config.world_options) == ("ppo", {"max_episode_steps": 200})
    assert run.env_world.env_kwargs == run.world.env_kwargs == {"max_episode_steps": 200}
    own = resolve_run(build_config("CliffWalking-v1", backend="serial", episode_length=50))
    assert own.config.world_options == {"max_episode_steps": 50}


def test_small_images_and_boards_have_options_of_their_own():
    """With discrete actions and without a recipe, in kernel worlds too; what the user sets has priority."""
    board, screen = gs.Box(0, 255, (10, 10), np.uint8), gs.Box(0, 255, (84, 84, 3), np.uint8)
    assert small_image_options(board, gs.Discrete(4))["ppo"]["hidden"] == [256, 128]
    assert small_image_options(gs.Box(0, 1, (7, 7, 3)), gs.MultiDiscrete([3, 2]))
    for others in ((screen, gs.Discrete(4)), (board, gs.Box(-1, 1, (2,))), (gs.Box(-1, 1, (4,)), gs.Discrete(2))):
        assert small_image_options(*others) == {}
    run = resolve_run(build_config("Pendulum-v1", num_envs=1, learner="ppo", ppo={"entropy": 0.5}))
    run = replace(run, world=replace(run.world, name="mine"))  # a kernel world of no recipe
    chosen = run.with_spaces(board, gs.Discrete(4)).config.ppo
    assert chosen.activation == "relu" and chosen.entropy == 0.5 and chosen.learning_rate == 1e-3
    known = resolve_run(build_config("CartPole-v1", num_envs=1, learner="ppo"))
    assert known.with_spaces(board, gs.Discrete(4)).config.ppo.activation == "tanh"  # as its recipe leaves it


def test_continuous_control_is_normalised_unless_the_user_says_no():
    """Worlds without a recipe, with vectors in and out."""
    vector = gs.Box(-1, 1, (3,))
    assert usual_options(vector, vector)["ppo"] == {"normalise_observations": True, "normalise_rewards": True}
    assert usual_options(vector, gs.Discrete(2)) == usual_options(gs.Box(0, 1, (8, 8, 3)), vector) == {}
    known = resolve_run(build_config("Pendulum-v1", compiled=False, learner="ppo", num_envs=1, backend="serial"))
    assert known.with_spaces(vector, vector).config.ppo.normalise_observations is False  # its recipe does not
    run = resolve_run(build_config("Pendulum-v1", compiled=False, learner="td3", num_envs=1, backend="serial"))
    run = run.with_config(learner="ppo", ppo=PPOOptions())
    run = replace(run, world=replace(run.world, name="mine"))
    assert run.with_spaces(vector, vector).config.ppo.normalise_rewards is True
    other = run.with_config(ppo=PPOOptions(normalise_rewards=False)).with_spaces(vector, vector)
    assert (other.config.ppo.normalise_observations, other.config.ppo.normalise_rewards) == (True, False)
