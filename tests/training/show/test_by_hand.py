"""A person acts in a world by the keyboard."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rookery.cli.main import main
from rookery.errors import OptionError
from rookery.training.resolve.world_choice import World
from rookery.training.show.by_hand import keys_for, play_by_hand

pygame = pytest.importorskip("pygame")


class Slide(gym.Env):
    """Notes its actions, and posts the keyboard's events of `script` after the frame of their number."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 500}
    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Box(np.float32([-2, -np.inf, 1]), np.float32([3, np.inf, 4]))
    script: dict[int, list] = {}
    actions: list[list[float]] = []
    seeds: list[int | None] = []

    def __init__(self, render_mode=None, length=4):
        self.render_mode, self.length, self.frames, self.steps = render_mode, length, 0, 0

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert action in self.action_space
        self.actions.append(action.tolist())
        self.steps += 1
        return np.zeros(1, np.float32), 0.5, self.steps == self.length, False, {}

    def render(self):
        for kind, name in self.script.get(self.frames, ()):
            fields = {} if name is None else {"key": getattr(pygame, f"K_{name}")}
            pygame.event.post(pygame.event.Event(kind, fields))
        self.frames += 1
        return np.full((16, 16, 3), self.steps, np.uint8)


class ManyChoices(Slide):
    action_space = spaces.Discrete(99)


@pytest.fixture(autouse=True)
def script(monkeypatch):
    """Windows open nowhere; returns what is posted after each frame."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(Slide, "script", {})
    monkeypatch.setattr(Slide, "actions", [])
    monkeypatch.setattr(Slide, "seeds", [])
    return Slide.script


WORLD = World("slide", Slide, False)
DOWN, UP = pygame.KEYDOWN, pygame.KEYUP


def test_a_column_of_letters_for_each_number(script):
    """Held keys act until they are released, and two opposite ones not at all; unlimited numbers go from -1 to 1."""
    script[0] = [(DOWN, "q"), (DOWN, "s")]
    script[1] = [(UP, "q"), (DOWN, "w"), (DOWN, "a")]
    script[2] = [(DOWN, "ESCAPE")]
    played = play_by_hand(WORLD, seed=5)
    assert Slide.actions == [[3.0, -1.0, 1.0], [-2.0, 0.0, 1.0]]
    assert Slide.seeds == [5] and played.steps == 2 and not played.returns
    assert not pygame.display.get_init()


def test_arrows_are_for_one_or_two_numbers():
    two, three = (keys_for("w", spaces.Box(-1, 1, (size,))) for size in (2, 3))
    assert two.action({"LEFT", "UP"}).tolist() == [-1.0, 1.0] and "arrows" in two.help
    assert three.action({"LEFT", "UP", "e"}).tolist() == [0.0, 0.0, 1.0] and "E/D" in three.help


def test_digits_choose_one_of_few_actions():
    """The last one that is held; without any, the first action. A space may begin elsewhere than at 0."""
    keys = keys_for("w", spaces.Discrete(3, start=5))
    assert [int(keys.action(down)) for down in (set(), {"0"}, {"2"}, {"1", "2"}, {"7"})] == [5, 5, 7, 7, 5]
    assert keys.help.startswith("the action: 0 to 2; without a key it is 0") and keys.names() == {"0", "1", "2"}


def test_a_world_of_few_actions_is_played(capsys):
    """Without a key CartPole is pushed to the left, and falls."""
    pytest.importorskip("numba")
    assert main(["play", "CartPole-v1", "--games", "1", "--seed", "0", "--fps", "500", "--json"]) == 0
    assert 8 <= json.loads(capsys.readouterr().out)["steps"] <= 12


def test_what_cannot_be_played_is_said_before_a_screen_is_missed(monkeypatch):
    """A screen would not help."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OptionError, match="many cannot be played by the keyboard"):
        play_by_hand(World("many", ManyChoices, False))


def test_episodes_are_counted_and_recorded(tmp_path, caplog):
    """Until there are enough of them; a restart is none."""
    played = play_by_hand(WORLD, episodes=2, record=str(tmp_path / "seen.gif"))
    assert played.returns == [2.0, 2.0] and played.as_json() == {"episodes": 2, "returns": [2.0, 2.0], "steps": 8}
    assert str(played) == "2 episodes in 8 steps: returns 2, 2"
    assert (tmp_path / "seen.gif").read_bytes().startswith(b"GIF8")
    assert "episode 2: return 2" in caplog.text


def test_backspace_restarts_and_closing_the_window_ends_it(script):
    script[2], script[4] = [(DOWN, "BACKSPACE")], [(pygame.QUIT, None)]
    played = play_by_hand(WORLD)
    assert len(Slide.seeds) == 2 and len(Slide.actions) == 3 and not played.returns


@pytest.mark.parametrize("space", [spaces.Discrete(11), spaces.Box(-1, 1, (2, 2)), spaces.Box(-1, 1, (10,))])
def test_other_actions_have_no_keys(space):
    with pytest.raises(OptionError, match="slide cannot be played by the keyboard: its action should be a vector of"):
        keys_for("slide", space)


def test_the_command_plays_a_world(capsys):
    """By its name, as `rookery train` takes it."""
    assert main(["play", f"{__file__}:Slide", "--games", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"episodes": 1, "returns": [2.0], "steps": 4}


def test_the_command_has_no_opponent_there(capsys):
    assert main(["play", f"{__file__}:Slide", "--opponent", "weak"]) == 2
    assert "is played alone: --opponent is for hockey" in capsys.readouterr().err


def test_an_env_names_its_own_keys() -> None:
    class Joystick:
        def get_keys_to_action(self):
            return {("e",): 0, (" ",): 1, ("w",): 2, (" ", "w"): 3}

    keys = keys_for("w", spaces.Discrete(18), Joystick())
    assert [keys.action(down) for down in (set(), {"SPACE"}, {"UP"}, {"w", "SPACE"})] == [0, 1, 2, 3]
    assert keys.names() == {"e", "SPACE", "w", "UP"} and "SPACE" in keys.help
