"""Options of a world never name what is called."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rookery
from rookery.errors import NotAllowed, OptionError, RookeryError, WorldError
from rookery.kernel.kernel_env import KernelEnv, find_world
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import Seat
from rookery.training.resolve.world_choice import NOT_OPTIONS, find
from rookery.training.storage.run_dir import RunDir

STDLIB = sysconfig.get_paths()["stdlib"]


def shell(canary: Path) -> dict[str, str]:
    return {"world": "subprocess:getoutput", "cmd": f"touch {canary}"}


@pytest.mark.parametrize("world", ["CartPole-v1", "rookery/CartPole-v1", "hockey", "Taxi-v3", "gameboy"])
def test_a_config_runs_no_shell(world: str, tmp_path: Path, canary: Path) -> None:
    """Neither with the twin nor without, whatever the world."""
    for compiled in (True, False):
        with pytest.raises(OptionError, match="`world` configures how the env is created"):
            rookery.train(world, world_options=shell(canary), compiled=compiled, runs_dir=str(tmp_path))
    assert not canary.exists()
    assert not list(tmp_path.iterdir())


def test_a_run_and_an_evaluation_run_no_shell(run: RunDir, canary: Path) -> None:
    """Options stand in a run's config, and on the command line."""
    with pytest.raises(OptionError, match="`world` configures"):
        evaluate(run.path, episodes=1, world_options=shell(canary))
    run.write_config({**run.read_config(), "world_options": shell(canary)})
    for trust, error in ((False, NotAllowed), (True, OptionError)):
        with pytest.raises(error):
            evaluate(run.path, episodes=1, trust=trust)
        with pytest.raises(error):
            rookery.resume(run.path, steps=10**6, trust=trust)
    assert not canary.exists()


@pytest.mark.parametrize("key", NOT_OPTIONS)
def test_how_an_env_is_made_is_no_option(key: str) -> None:
    """Of a registered one; a class in a file has whatever options it likes."""
    with pytest.raises(OptionError, match=f"`{key}` configures how the env is created"):
        find("CartPole-v1", options={key: 1})


def test_no_way_to_a_kernel_world_calls_what_is_none(canary: Path) -> None:
    """By the engine, by Gymnasium, and by the class itself."""
    kwargs: dict[str, Any] = shell(canary)
    for way in (
        lambda: rookery.make_vec("rookery/CartPole-v1", 1, env_kwargs=kwargs),
        lambda: gym.make("rookery/CartPole-v1", **kwargs),
        lambda: KernelEnv(**kwargs),
        lambda: find_world(kwargs["world"], {"cmd": kwargs["cmd"]}),
        lambda: find_world("os:system"),
        lambda: find_world("nowhere:Nobody"),
        lambda: find_world(":"),
    ):
        with pytest.raises(WorldError):
            way()
    assert not canary.exists()


def test_worlds_by_their_names_work_as_before() -> None:
    """A class by its place, and a function that the registry names."""
    assert find_world("rookery.worlds.classic:CartPole").name == "CartPole"
    assert KernelEnv("rookery.worlds.hockey.world:hockey").action_space.shape == (8,)
    assert gym.make("rookery/CartPole-v1").reset(seed=1)[0].shape == (4,)


def test_a_file_is_called_for_its_worlds_alone(tmp_path: Path, canary: Path) -> None:
    """A class that is a world, or a function written there; not what it happens to import."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from subprocess import getoutput\nfrom functools import partial\nimport gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Other:\n    pass\n"
        "def make(**options):\n    return CartPoleEnv()\n"
        f"shell = partial(getoutput, 'touch {canary}')\nprepared = partial(CartPoleEnv)\n"
    )
    for name in ("getoutput", "shell", "Other", "partial", "gymnasium"):
        with pytest.raises(WorldError):
            rookery.make_vec(f"{file}:{name}", 1, env_kwargs={"cmd": f"touch {canary}"})
    assert not canary.exists()
    for name in ("CartPoleEnv", "make", "prepared"):
        rookery.make_vec(f"{file}:{name}", 1, "serial").close()


@pytest.mark.parametrize("place", ["subprocess.py:getoutput", "os.py:abort", "antigravity.py:geohash"])
def test_files_of_python_itself_hold_no_worlds(place: str, canary: Path) -> None:
    """They are not even imported: a config names any path."""
    seat = Seat(gym.spaces.Discrete(2), gym.spaces.Discrete(2))
    with pytest.raises(WorldError, match="a Python file of your own"):
        rookery.train({"world": f"{STDLIB}/{place}", "world_options": {"cmd": f"touch {canary}"}})
    with pytest.raises(WorldError, match="a Python file of your own"):
        FilePlayer(f"{STDLIB}/{place}", seat)
    assert not canary.exists()


@pytest.mark.parametrize(
    "world", ["os.system:x", "..:x", ":x", "a b:c", "x.py:", "x.py", ".py:", "/:/", "\x1b[2J\n", "a" * 5000]
)
def test_odd_names_of_worlds_are_refused(world: str) -> None:
    """With one of our errors."""
    with pytest.raises(RookeryError):
        find(world)
