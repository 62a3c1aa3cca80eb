"""From a world's name to what is stepped, and who can learn there."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces as gs

from rookery.errors import OptionError, WorldError
from rookery.training.resolve import world_choice
from rookery.training.resolve.world_choice import check_learner, choose_learner, find, name_of_object
from rookery.worlds.world_spec import WorldOption, WorldSpec

pytestmark = pytest.mark.usefixtures("all_allowed")

ENV_FILE = """
import gymnasium as gym
import numpy as np


class Tidy(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    open = 0

    def __init__(self, size=1):
        Tidy.open += 1
        self.size = size

    def close(self):
        Tidy.open -= 1
"""
UNIT = gs.Box(-1, 1, (2,), np.float32)


@pytest.fixture
def env_file(tmp_path) -> Path:
    file = tmp_path / "my_env.py"
    file.write_text(ENV_FILE)
    return file


def test_a_known_world_gets_its_compiled_twin_and_says_so():
    """Unless it is asked to stay with Gymnasium's."""
    found = find("CartPole-v1")
    assert (found.name, found.source, found.kernel) == ("CartPole-v1", "rookery/CartPole-v1", True)
    assert "compiled=false" in found.note
    plain = find("CartPole-v1", compiled=False)
    assert (plain.source, plain.kernel, plain.note) == ("CartPole-v1", False, "")


def test_options_that_the_twin_does_not_know_keep_the_world():
    """Gymnasium's Pendulum calls its gravity `g`."""
    found = find("Pendulum-v1", options={"g": 9.0})
    assert (found.source, found.kernel, found.env_kwargs) == ("Pendulum-v1", False, {"g": 9.0})
    assert "using Gymnasium's env" in found.note
    assert find("Pendulum-v1", options={"gravity": 9.0}).kernel


def test_without_a_compiler_the_world_stays(monkeypatch):
    """And the note says what to install."""
    monkeypatch.setattr(world_choice, "find_spec", lambda name: None)
    found = find("CartPole-v1")
    assert found.source == "CartPole-v1"
    assert "rookery[kernel]" in found.note


@pytest.mark.parametrize("name", ["hockey", "Hockey"])
def test_short_names(name):
    """`hockey` is one player against a script; DQN gets its discrete actions unless told otherwise."""
    found = find(name)
    assert (found.name, found.source, found.kernel) == ("hockey", "rookery/HockeyOne-v0", True)
    assert isinstance(found.spaces[1], gs.Box)
    assert isinstance(find(name, learner="dqn").spaces[1], gs.Discrete)
    assert isinstance(find(name, learner="dqn", options={"discrete": False}).spaces[1], gs.Box)


def test_a_world_in_a_file(env_file, monkeypatch):
    """It is named after both, and found again from any folder."""
    monkeypatch.chdir(env_file.parent)
    found = find("my_env.py:Tidy", options={"size": 3})
    assert (found.name, found.source, found.kernel) == ("my_env-Tidy", f"{env_file.resolve()}:Tidy", False)
    assert found.env_kwargs == {"size": 3}


def test_looking_at_spaces_leaves_no_env_open(env_file):
    """A world that is not a kernel world is built for it, and closed."""
    found = find(f"{env_file}:Tidy")
    assert found.spaces[1] == gs.Discrete(2)
    from rookery.user_code import load_file

    assert load_file(str(env_file)).Tidy.open == 0


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CartPool", "did you mean CartPole-v1?"),
        ("cartpole-v1", "did you mean CartPole-v1?"),
        ("CartPole-v7", "did you mean CartPole-v1?"),
        ("rookery/cartpole-v1", "did you mean CartPole-v1?"),
        ("hokey", "did you mean hockey"),
        ("MountainCarContinous-v0", "did you mean MountainCarContinuous-v0"),
        ("xyzzy", "a Gymnasium id such as CartPole-v1"),
        ("nowhere.py:MyEnv", "there is no file 'nowhere.py'"),
        ("nowhere.py", "there is no file 'nowhere.py'"),
        ("no_such_module:Env-v0", "no_such_module"),
    ],
)
def test_an_unknown_world_gets_the_near_names(name, hint):
    """Before anything is built."""
    with pytest.raises(WorldError) as caught:
        find(name)
    assert hint in str(caught.value)
    assert name in str(caught.value)


def test_a_file_without_a_class_is_told(env_file):
    """Both that one must be named, and which there are."""
    with pytest.raises(WorldError, match="name the class in the file as well"):
        find(str(env_file))
    with pytest.raises(WorldError, match="envs in it: Tidy"):
        find(f"{env_file}:Tydi")


class Here(gym.Env):
    """An env at the top of a file."""


def test_a_class_can_be_spelled():
    """By its file; what has no place in a file cannot be found again by a resumed run."""
    assert name_of_object("CartPole-v1") == "CartPole-v1"
    assert name_of_object(Here) == f"{__file__}:Here"
    for homeless in (lambda: None, Here(), type("Made", (gym.Env,), {"__module__": "nowhere"})):
        with pytest.raises(WorldError, match="has no name that a run could record"):
            name_of_object(homeless)


def test_the_learner_follows_from_the_actions():
    """Choices: PPO. Continuous: SAC where steps are slow, PPO where they are fast or actions have no bounds."""
    for space in (gs.Discrete(2), gs.MultiDiscrete([2, 3]), gs.MultiBinary(3)):
        assert choose_learner(space, step_seconds=1.0) == "ppo"
    assert choose_learner(UNIT, step_seconds=0.2) == "sac"
    assert choose_learner(UNIT, step_seconds=0.001) == choose_learner(UNIT) == "ppo"
    assert choose_learner(gs.Box(-np.inf, np.inf, (2,)), step_seconds=1.0) == "ppo"


def test_an_older_version_of_an_id_means_the_newest():
    """Gymnasium removes old versions; so does an id without a version. A version that is not there yet is unknown."""
    newest = max(int(name.rpartition("-v")[2]) for name in gym.registry if name.startswith("Taxi-v"))
    for asked in ("Taxi", "Taxi-v0"):
        found = find(asked)
        assert found.source == found.name == f"Taxi-v{newest}"
        assert found.note.startswith(f"{asked}: using Taxi-v{newest}")
    with pytest.raises(WorldError, match="Taxi-v999"):
        find("Taxi-v999")


@pytest.mark.parametrize(
    ("learner", "space", "message"),
    [
        ("dqn", UNIT, "dqn needs a Discrete; here it can be ppo, sac, td3 or xqc"),
        ("sac", gs.Discrete(3), "here it can be ppo, dqn or pqn"),
        ("dqn", gs.MultiDiscrete([2, 2]), "here it can be ppo"),
        ("sac", gs.Box(-np.inf, 1, (2,)), "with finite bounds, or a Dict or Tuple of these; here it can be ppo"),
        ("ppo", gs.Dict(a=gs.Text(3)), "no learner can act in"),
        ("sac", gs.Dict(a=gs.Discrete(2)), "or a Dict or Tuple of these; here it can be ppo"),
        ("ppo", gs.Box(0, 9, (2,), np.int32), "no learner can act in"),
    ],
)
def test_a_learner_that_cannot_serve_says_who_can(learner, space, message):
    """Before anything is trained."""
    with pytest.raises(OptionError) as caught:
        check_learner(learner, space, UNIT)
    assert message in str(caught.value)


def test_observations_that_no_learner_takes():
    """Are named, wherever in a nested space they are."""
    check_learner("ppo", gs.Discrete(2), gs.Dict(a=UNIT, b=gs.Tuple([gs.Discrete(3), gs.MultiBinary(2)])))
    with pytest.raises(OptionError, match="no learner can take observations in Text"):
        check_learner("ppo", gs.Discrete(2), gs.Dict(a=gs.Text(5)))


def test_folders_are_recorded_by_absolute_paths(tmp_path, monkeypatch):
    """A run is resumed from any folder. What is not a path, such as a name or an object, stays."""
    folder = WorldOption("data", "PATH", "bars", is_folder=True)
    file = WorldOption("profile", "NAME", "a game", is_file=True)
    spec = WorldSpec("bars", "tests/Bars-v0", options=(folder, file))
    monkeypatch.setattr(world_choice.registry, "by_source", lambda source: spec)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "5m").mkdir()
    (tmp_path / "own.toml").touch()
    world = world_choice.World("bars", "tests/Bars-v0", kernel=True)
    given = {"data": Path("5m"), "profile": "own.toml", "symbols": "5m"}
    assert world_choice.recorded_options(world, given) == {
        "data": str(tmp_path / "5m"), "profile": str(tmp_path / "own.toml"), "symbols": "5m",
    }  # fmt: skip
    kept = {"data": {"price_array": 1}, "profile": "5m"}
    assert world_choice.recorded_options(world, kept) == kept
