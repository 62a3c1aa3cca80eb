"""What is said of a world that does not take an option, or is not written for Gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rookery.cli.main import main
from rookery.errors import OptionError, WorldError
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.world_choice import World, find

pytestmark = pytest.mark.usefixtures("all_allowed")

FILE = """
import gymnasium as gym
import numpy as np

class Sized(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, size=3, *, goal="x", render_mode=None):
        pass

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

class OldGym(Sized):
    def __init__(self):
        pass

    def reset(self):
        return np.zeros(2, np.float32)
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worlds_here.py").write_text(FILE)
    return "worlds_here.py"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v1", "--symbols", "A,B"], "CartPole-v1 has no option 'symbols' (it has sutton_barto_reward); "
         "--symbols is for crypto, perpetuals, forex, forex-account"),
        (["FrozenLake-v1", "--rom", "x"], "; --rom is for gameboy"),
        (["FrozenLake-v1", "--set", "world_options.nope=3"], "v1 has no option 'nope' (it has desc, map_name, "),
        (["worlds_here.py:Sized", "--set", "world_options.nope=3"], "has no option 'nope' (it has size, goal)"),
        (["worlds_here.py:Sized", "--set", "world_options.sise=3"], "(it has size, goal); did you mean 'size'?"),
        (["worlds_here.py:OldGym", "--lookback", "3"],
         "'lookback' (it has none); --lookback is for crypto, perpetuals, forex, forex-account"),
        (["worlds_here.py:OldGym"], "its reset() takes no `seed`, as envs of the old Gym: a Gymnasium env has"),
    ],
)  # fmt: skip
def test_it_is_said_in_words(file: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *words, "--steps", "64"]) == 2
    said = capsys.readouterr().err
    assert message in said and "world_options, as in" not in said and "TypeError" not in said


def _world(**options: Any) -> World:
    return World("x", gym.envs.classic_control.CartPoleEnv, False, options)


def test_a_mistake_in_the_worlds_own_code_is_left_as_it_is() -> None:
    """Also one about keywords: its traceback shows where it is."""
    with pytest.raises(TypeError, match="helper") as raised, explain_option_errors(_world(size=3)):
        raise TypeError("helper() got an unexpected keyword argument 'colour'")
    assert not isinstance(raised.value, (OptionError, WorldError))


def test_an_option_that_is_missing() -> None:
    hint = r"missing 1 required.*as in --set world_options\.size=5"
    with pytest.raises(OptionError, match=hint), explain_option_errors(_world()):
        raise TypeError("Maze.__init__() missing 1 required positional argument: 'size'")


def test_an_env_that_hides_its_options_is_not_guessed_at() -> None:
    """A callable without a signature."""
    world = World("x", "FrozenLake-v1", False, {"nope": 1})
    object.__setattr__(world, "factory", type("Factory", (), {"makers": (None,)}))
    with pytest.raises(OptionError, match=r"^x has no option 'nope'$"), explain_option_errors(world):
        raise TypeError("make() got an unexpected keyword argument 'nope'")


def test_worlds_that_take_the_option_are_built(file: str) -> None:
    assert find(f"{file}:Sized", options={"size": 5}).spaces[0].shape == (2,)
    assert np.isfinite(find("MountainCar-v0", compiled=False, options={"goal_velocity": 0.1}).spaces[0].high).all()
