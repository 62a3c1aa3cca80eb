"""Pictures of hockey, and hockey played in a window."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.errors import MissingExtra, OptionError, UsageError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.hockey.play import MatchScore, play
from rookery.worlds.hockey.render import Picture
from rookery.worlds.hockey.table import TEAMS
from rookery.worlds.hockey.world import Hockey

pygame = pytest.importorskip("pygame")
PARAMS = SimpleNamespace(mode=0, player_one=0, player_two=2, time_limit=250)
ICE_BRIGHTNESS = 600


@pytest.fixture(autouse=True)
def unseen(monkeypatch):
    """Windows open nowhere."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.fixture
def frames(monkeypatch):
    """What is shown, frame by frame, as copies of the state; `events` are posted after the frame of their number."""
    shown = SimpleNamespace(states=[], score=[], events={})
    draw = Picture.draw

    def watched(picture, state, params, mode):
        answer = draw(picture, state, params, mode)
        for kind, fields in shown.events.get(len(shown.states), ()):
            pygame.event.post(pygame.event.Event(kind, fields))
        shown.states.append(
            SimpleNamespace(x=list(state.x), y=list(state.y), angle=list(state.angle), steps=state.steps)
        )
        shown.score.append(picture.score)
        return answer

    monkeypatch.setattr(Picture, "draw", watched)
    return shown


def game(**fields):
    """A game as it may stand."""
    usual = {
        "x": [2.0, 8.0, 4.0], "y": [4.0, 4.0, 5.0], "angle": [0.0, 0.0, 0.0], "vx": [0.0] * 3, "vy": [0.0] * 3,
        "hold": [0, 0], "winner": 0, "steps": 7,
    }  # fmt: skip
    return SimpleNamespace(**(usual | fields))


def at(picture, x, y):
    """The colour at a point of the table."""
    return picture[round(480 - 60 * y), round(60 * x)].astype(int)


def key(name):
    return {"key": getattr(pygame, f"K_{name}")}


def test_a_picture_is_an_array_of_bytes():
    """480 x 600 x 3, contiguous, the caller's own, and the same for the same state."""
    picture = Picture()
    one = picture.draw(game(), PARAMS, "rgb_array")
    kept = one.copy()
    other = picture.draw(game(x=[3.0, 8.0, 4.0]), PARAMS, "rgb_array")
    assert one.shape == (480, 600, 3) and one.dtype == np.uint8 and one.flags.c_contiguous and one.flags.writeable
    assert np.array_equal(one, kept) and not np.array_equal(one, other)
    assert np.array_equal(one, Picture().draw(game(), PARAMS, "rgb_array"))


@pytest.mark.parametrize(("x", "y"), [(4.0, 5.0), (6.5, 2.0), (1.6, 6.9)])
def test_the_puck_is_where_it_is(x, y):
    """Dark at its place and bright beside it; up on the table is up in the picture."""
    picture = Picture().draw(game(x=[2.0, 8.0, x], y=[4.0, 4.0, y]), PARAMS, "rgb_array")
    assert at(picture, x, y).sum() < 200
    assert at(picture, x, y - 0.5).sum() > ICE_BRIGHTNESS
    assert at(picture, x, y + 0.3).sum() > 400


def test_rackets_are_mirrored_and_turn():
    """Each has its team's colour; they face each other; an angle turns both the same way."""
    picture = Picture().draw(game(), PARAMS, "rgb_array")
    back, front = 0.35, 0.2
    for x, forward, colour in ((2.0, 1.0, TEAMS[0]), (8.0, -1.0, TEAMS[1])):
        assert np.abs(at(picture, x, 4.22) - colour).max() < 25
        assert at(picture, x + forward * front, 4.0).sum() > ICE_BRIGHTNESS
        assert np.abs(at(picture, x - forward * back, 4.0) - colour).max() < 110
    turned = Picture().draw(game(angle=[1.0, 1.0, 0.0]), PARAMS, "rgb_array")
    tip = (-0.28, 0.22)  # of a racket whose face points up to the left after the turn
    assert np.abs(at(turned, 2.0 + tip[0], 4.0 + tip[1]) - TEAMS[0]).max() < 110
    assert at(turned, 2.0 - tip[0], 4.0 + tip[1]).sum() > ICE_BRIGHTNESS


def test_what_happens_can_be_seen():
    """A kept puck, a fast one, a goal, a score and a banner each change the picture."""
    picture = Picture()
    plain = picture.draw(game(), PARAMS, "rgb_array")
    for change in ({"hold": [9, 0]}, {"hold": [0, 9]}, {"vx": [0.0, 0.0, 20.0]}, {"winner": 1}, {"winner": -1}):
        assert not np.array_equal(plain, picture.draw(game(**change), PARAMS, "rgb_array"))
    picture.score = 2, 1
    scored = picture.draw(game(), PARAMS, "rgb_array")
    picture.banner = "DRAW"
    assert not np.array_equal(plain, scored)
    assert not np.array_equal(scored, picture.draw(game(), PARAMS, "rgb_array"))


def test_a_trail_lies_behind_the_puck_and_on_the_ice():
    """It is darker behind than ahead, and the rail that a puck has just left is as before."""
    picture = Picture()
    still = picture.draw(game(x=[2.0, 8.0, 6.0], y=[4.0, 4.0, 7.1]), PARAMS, "rgb_array")
    fast = picture.draw(game(x=[2.0, 8.0, 6.0], y=[4.0, 4.0, 7.1], vx=[0, 0, 15.0], vy=[0, 0, -15.0]), PARAMS)
    assert np.array_equal(still[:40], fast[:40])
    assert at(fast, 5.75, 7.3).sum() < at(still, 5.75, 7.3).sum()
    assert np.array_equal(at(fast, 6.5, 6.6), at(still, 6.5, 6.6))


def test_pictures_come_through_gymnasium():
    """An env with render_mode "rgb_array" draws itself."""
    env = KernelEnv(Hockey, render_mode="rgb_array", plain=True)
    env.reset(seed=1)
    before = env.render()
    for _ in range(5):
        env.step(np.array([1, 0, 0, 0, 1, 0, 0, 0], np.float32))
    after = env.render()
    assert before.shape == after.shape == (480, 600, 3) and not np.array_equal(before, after)
    env.close()


def test_a_window_that_was_closed_stays_closed():
    """In mode "human" a closed window ends the pictures, not the game."""
    env = KernelEnv(Hockey, render_mode="human", plain=True)
    env.reset(seed=1)
    assert pygame.display.get_surface().get_size() == (600, 480)
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    for _ in range(2):
        env.step(np.zeros(8, np.float32))
        assert not pygame.display.get_init()
    env.close()


def test_no_screen_is_said(monkeypatch):
    """Without a display a window is rejected in words, and arrays still come."""
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(UsageError, match="a window cannot be opened here"):
        Picture().draw(game(), PARAMS, "human")
    assert Picture().draw(game(), PARAMS).any()


def test_a_missing_pygame_is_named():
    """Without pygame the error says which extra brings it."""
    code = "import sys; sys.modules['pygame'] = None; from rookery.worlds.hockey.render import Picture; Picture()"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert MissingExtra.__name__ in answer.stderr and "pip install 'rookery[render]'" in answer.stderr


# --- playing -----------------------------------------------------------------------------------------------------


def test_keys_move_the_racket(frames):
    """A key that is held acts until it is released; both sets of keys are good for someone alone."""
    frames.events = {
        0: [(pygame.KEYDOWN, key("d")), (pygame.KEYDOWN, key("UP")), (pygame.KEYDOWN, key("q"))],
        12: [(pygame.KEYUP, key("d")), (pygame.KEYUP, key("UP")), (pygame.KEYDOWN, key("a"))],
        16: [(pygame.KEYDOWN, key("ESCAPE"))],
    }
    tally = play(opponent="weak", fps=1000, seed=2)
    first, middle = frames.states[0], frames.states[12]
    assert middle.x[0] > first.x[0] + 0.5 and middle.y[0] > first.y[0] + 0.5 and middle.angle[0] > 0.1
    assert len(frames.states) == 17 and tally.games == 0 and tally.steps == 16


def test_two_people_have_a_hand_each(frames):
    """The right player's keys mean the table's directions, though that player's actions are mirrored."""
    frames.events = {
        0: [(pygame.KEYDOWN, key("LEFT")), (pygame.KEYDOWN, key("UP")), (pygame.KEYDOWN, key("s"))],
        10: [(pygame.KEYDOWN, key("ESCAPE"))],
    }
    tally = play(opponent="human", fps=1000, seed=2)
    first, last = frames.states[0], frames.states[-1]
    assert last.x[1] < first.x[1] - 0.3 and last.y[1] > first.y[1] + 0.3
    assert last.y[0] < first.y[0] - 0.3 and abs(last.x[0] - first.x[0]) < 0.01
    assert tally.names == ("left player", "right player")


def test_a_tap_between_frames_counts(frames):
    """A key pressed and released between two frames acts for one step."""
    frames.events = {
        0: [(pygame.KEYDOWN, key("w")), (pygame.KEYUP, key("w"))],
        3: [(pygame.KEYDOWN, key("ESCAPE"))],
    }
    play(fps=1000, seed=2)
    assert frames.states[1].y[0] > frames.states[0].y[0]


def test_restart_and_closing_the_window(frames):
    """R begins another game without counting the one it leaves; closing the window ends the match."""
    frames.events = {5: [(pygame.KEYDOWN, key("r"))], 9: [(pygame.QUIT, {})]}
    tally = play(fps=1000, seed=2)
    assert [state.steps for state in frames.states] == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
    assert tally.games == 0 and not pygame.display.get_init()


@pytest.mark.slow
def test_scripts_play_and_are_recorded(frames, tmp_path, capsys):
    """Scripts play a number of games on their own; the score is shown, and the file contains what was seen."""
    image = pytest.importorskip("PIL.Image")
    file = tmp_path / "game.gif"
    tally = play("strong", "weak", "shooting", fps=1000, seed=3, games=2, record=str(file))
    assert tally.games == 2 == tally.won + tally.lost + tally.drawn
    assert frames.score[0] == (0, 0) and frames.score[-1] == (tally.won, tally.lost)
    with image.open(file) as recorded:
        assert recorded.size == (600, 480) and recorded.n_frames > 10
    assert capsys.readouterr().err == "R restart, Esc quit\n"


class Pusher:
    """Someone with a mind, who goes forward."""

    name = "pusher"

    def __init__(self):
        self.games, self.views = 0, []

    def begin(self):
        self.games += 1

    def act(self, observation):
        self.views.append(observation.copy())
        return [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("side", [0, 1])
def test_minds_play_from_either_side(frames, side):
    """Each sees its own view, goes forward as it sees it, and is told when a game begins."""
    mind = Pusher()
    frames.events = {8: [(pygame.KEYDOWN, key("r"))], 14: [(pygame.KEYDOWN, key("ESCAPE"))]}
    tally = play(*((mind, "human") if side == 0 else ("human", mind)), fps=1000, seed=2)
    assert tally.names == (("pusher", "you") if side == 0 else ("you", "pusher"))
    assert mind.games == 3 and len(mind.views) == tally.steps == 14
    assert mind.views[7][0] > mind.views[0][0] + 0.2
    forward = 1.0 if side == 0 else -1.0
    assert forward * (frames.states[8].x[side] - frames.states[0].x[side]) > 0.2
    assert mind.views[0][0] == pytest.approx(-3.0) and mind.views[0][6] == pytest.approx(3.0)


@pytest.mark.slow
def test_two_of_a_kind_are_told_apart(frames):
    tally = play(Pusher(), Pusher(), "shooting", fps=1000, seed=2, games=1)
    assert tally.names == ("left pusher", "right pusher") and tally.games == 1


@pytest.mark.slow
def test_the_same_seed_is_the_same_match(frames):
    """Scripted players play the same games again."""
    first, again = (play("strong", "weak", "defense", fps=1000, seed=5, games=1) for _ in range(2))
    assert first == again
    half = len(frames.states) // 2
    assert frames.states[:half] == frames.states[half:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponent": "great"}, "opponent should be one of human, weak, strong, got 'great'"),
        ({"mode": "fast"}, "mode should be one of normal, shooting, defense, got 'fast'"),
        ({"fps": 0}, "fps should be a positive integer, got 0"),
        ({"games": -1}, "games should be a positive integer, got -1"),
        ({"record": "game.mp4"}, "record should name a file ending in .gif, got 'game.mp4'"),
        ({"record": "/nowhere/game.gif"}, "record: there is no folder '/nowhere'"),
    ],
)
def test_bad_options_are_refused(options, message):
    """Before a window opens."""
    with pytest.raises(OptionError) as refused:
        play(**options)
    assert str(refused.value) == message


def test_one_game_is_not_games():
    assert str(MatchScore(("you", "weak script"), won=1, steps=90)).startswith(
        "1 game in 90 steps: you won 1, weak script"
    )


# --- the command -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_plays_and_sums_up(capsys):
    """Results go to standard output, as a line or as JSON; the keys go to standard error."""
    words = [
        "play",
        "hockey",
        "--player",
        "strong",
        "--opponent",
        "strong",
        "--mode",
        "shooting",
        "--games",
        "1",
        "--fps",
        "1000",
        "--seed",
        "1",
    ]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("1 game in ")
    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["games"] == 1 and answer["names"] == ["left strong script", "right strong script"]


@pytest.mark.slow
def test_the_command_without_a_screen_is_one_line():
    """No traceback, and the status of bad input."""
    hidden = ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    answer = subprocess.run(
        [sys.executable, "-m", "rookery", "play", "hockey"], capture_output=True, text=True, env=environment, timeout=60
    )
    assert answer.returncode == 2 and answer.stdout == ""
    assert answer.stderr.startswith("rookery: a window cannot be opened here") and answer.stderr.count("\n") == 1


def test_the_command_has_help_with_an_example(capsys):
    with pytest.raises(SystemExit) as left:
        main(["play", "--help"])
    assert left.value.code == 0
    assert "example: rookery play hockey" in capsys.readouterr().out
