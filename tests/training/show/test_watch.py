"""Trained agents in videos and windows."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from rookery.errors import OptionError, RookeryError, RunError
from rookery.extras import load_pygame
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.world_choice import find
from rookery.training.show import rendered_env, video
from rookery.training.show import watch as watching
from rookery.training.show.episode import PlayLimits, make_matchup
from rookery.training.show.rendered_env import open_rendered
from rookery.training.show.video import video_path, write_video
from rookery.training.show.watch import play, record_end, watch
from rookery.training.storage.load_agent import load_agent
from training.finished import STEP, make_run
from training.videos import frames_of

pytestmark = pytest.mark.usefixtures("all_allowed")

WORLDS = Path(__file__).parents[1] / "shown_worlds.py"


# --- video files --------------------------------------------------------------------------------------------------


def test_an_mp4_is_one_that_browsers_play(tmp_path):
    path = tmp_path / "new" / "play.mp4"
    write_video(path, (np.full((241, 303, 3), 10 * k, np.uint8) for k in range(20)), fps=25)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height, stream.frames, stream.average_rate) == (304, 242, 20, 25)
    contents = path.read_bytes()
    assert contents.index(b"moov") < contents.index(b"mdat"), "the index should come first"
    assert [round(frame.mean() / 10) for frame in frames_of(path)] == list(range(20))


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_images_that_move(tmp_path, kind):
    path = tmp_path / f"play.{kind}"
    write_video(path, (np.full((240, 300, 3), 10 * k, np.uint8) for k in range(20)), fps=20)
    with Image.open(path) as image:
        assert (image.n_frames, image.size) == (20, (300, 240))
        image.seek(15)
        assert abs(np.asarray(image.convert("RGB")).mean() - 150) < 5


def test_small_pictures_are_enlarged_and_grey_ones_are_too(tmp_path):
    write_video(tmp_path / "play.mp4", [np.eye(8, dtype=np.uint8) * 255] * 3, fps=5)
    picture = frames_of(tmp_path / "play.mp4")[0]
    assert picture.shape == (200, 200, 3)
    assert picture[10, 10].mean() > 200 and picture[10, 150].mean() < 50


@pytest.mark.parametrize(
    ("frames", "words"),
    [([], "no frame to show"), ([np.zeros((40, 40, 3))], r"array \(height, width, 3\) of bytes, .* returned float64")],
)
def test_what_is_no_picture_is_refused_and_leaves_no_file(tmp_path, frames, words):
    with pytest.raises(RunError, match=words):
        write_video(tmp_path / "play.mp4", frames, fps=5)
    assert not list(tmp_path.iterdir())


def test_a_video_that_fails_half_way_leaves_the_old_one(tmp_path):
    path = tmp_path / "play.mp4"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_video(path, (np.zeros((240, 240, 3), np.uint8) + 1 // (3 - k) for k in range(9)), fps=5)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_pyav_it_becomes_a_gif_with_a_line_about_it(monkeypatch, said):
    monkeypatch.setattr(video, "find_spec", lambda name: None)
    assert video_path(Path("videos/play.mp4")) == Path("videos/play.gif")
    assert video_path(Path("play.webp")) == Path("play.webp")
    assert said() == ["writing play.gif, as an .mp4 needs PyAV: pip install 'rookery[video]'"]


# --- runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hockey_shows_games_with_their_score(tmp_path, said):
    run = make_run(tmp_path, "hockey", world_options={"time_limit": 20})
    path = watch("finished", tmp_path, episodes=2)
    assert path == run.path / "videos" / f"step-{STEP}.mp4"
    pictures = frames_of(path)
    assert len(pictures) == 2 * (20 + 35)
    assert pictures[0].shape == (480, 600, 3)
    lines = said()
    assert len(lines) == 2
    assert lines[0].startswith("episode 1: return ") and lines[0].endswith("20 steps, drawn")


@pytest.mark.slow
def test_the_episodes_of_an_evaluation_are_the_ones_that_are_shown(tmp_path, said):
    from rookery.training.evaluation.evaluate import evaluate

    make_run(tmp_path, "hockey", world_options={"time_limit": 10}, recurrent=4, normalise_observations=True)
    watch("finished", tmp_path, episodes=2, out=tmp_path / "play.gif")
    figures = evaluate("finished", tmp_path, episodes=2)
    shown = [float(line.split("return ")[1].split(",")[0]) for line in said() if "return" in line]
    assert shown == pytest.approx([figures["return_min"], figures["return_max"]], rel=1e-3) or shown == pytest.approx(
        [figures["return_max"], figures["return_min"]], rel=1e-3
    )


MINE = """
class Agent:
    def act(self, obs):
        return [1.0, 0.0, 0.0, 0.0]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "who"), [("sac", "strong"), ("dqn", "mine.py:Agent"), ("ppo", "agent"), ("sac", "other")]
)
def test_hockey_against_whom_one_likes(tmp_path, monkeypatch, said, learner, who):
    """A script, a file, the agent that comes with rookery, or another run."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    make_run(tmp_path, "hockey", "dqn").path.rename(tmp_path / "other")
    make_run(tmp_path, "hockey", learner, world_options={"time_limit": 12})
    path = watch("finished", tmp_path, episodes=2, opponent=who)
    assert len(frames_of(path)) == 2 * (12 + 35)
    assert len(said()) == 2 and all(line.endswith("12 steps, drawn") for line in said())


def test_the_opponent_is_seen_to_act(tmp_path, monkeypatch):
    """One that goes forward comes nearer; names and actions are those of the two."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    run = make_run(tmp_path, "hockey", "dqn")
    world, matchup = make_matchup(find("hockey", learner="dqn"), load_agent(run), "finished", "mine.py:Agent", tmp_path)
    assert matchup.names == ("finished", "mine.Agent")
    with open_rendered(world, matchup=matchup) as shown:
        first, _ = shown.env.reset(seed=1)
        for _ in range(10):
            last, *_ = shown.env.step(2)  # the choice "+x"
    assert last[6] < first[6] - 0.2, "the opponent's x, as the agent sees it"
    assert last[0] > first[0] + 0.2
    assert shown.viewer.names == matchup.names


@pytest.mark.slow
def test_the_agent_that_comes_with_rookery_meets_the_strong_script(tmp_path, said):
    path = watch(None, episodes=1, out=tmp_path / "play.gif")
    with Image.open(path) as image:
        assert image.size == (600, 480)
    assert len(said()) == 1


@pytest.mark.slow
def test_an_agent_of_one_side_of_a_game_for_two(tmp_path, said):
    """Its world asks for both players' actions: the strong script plays the other."""
    run = make_run(tmp_path, "hockey", "sac")
    world = find("rookery/Hockey-v0", options={"time_limit": 5})
    path = record_end(world, load_agent(run), tmp_path / "agent.mp4", seed=5, episodes=1)
    assert path is not None and len(frames_of(path)) == 5 + 35


@pytest.mark.parametrize(
    ("world", "trained", "seen"),
    [
        ("hockey", {"opponents": [{"who": "self"}]}, ("finished", "strong script")),
        ("hockey", {"phases": [{"opponents": [{"who": "weak"}]}]}, ("finished", "strong script")),
        ("hockey", {"phases": [{"steps": 9}, {}]}, None),
        ("CartPole-v1", {"phases": [{"steps": 9}, {}]}, None),
    ],
)
def test_a_run_with_many_opponents_is_shown_against_the_strong_script(tmp_path, monkeypatch, world, trained, seen):
    """One without them is shown in its world as it is."""
    run = make_run(tmp_path, world)
    run.write_config(run.read_config() | trained)
    shows = []
    monkeypatch.setattr(watching, "_write_video", lambda show, *_: shows.append(show))
    watch("finished", tmp_path)
    matchup = shows[0].matchup
    assert (None if matchup is None else matchup.names) == seen


@pytest.mark.parametrize(
    ("world", "who", "words"),
    [
        ("CartPole-v1", "strong", "CartPole-v1 is not a two-player game"),
        ("hockey", "cartpole", "cartpole cannot play here: its agent acts in"),
        ("hockey", "nobody", "there is no player 'nobody'"),
    ],
)
def test_opponents_that_cannot_be_had(tmp_path, world, who, words):
    make_run(tmp_path, "CartPole-v1").path.rename(tmp_path / "cartpole")
    make_run(tmp_path, world)
    with pytest.raises(RookeryError, match=words):
        watch("finished", tmp_path, opponent=who)


def test_a_twin_is_shown_as_its_gymnasium_original(tmp_path, said):
    make_run(tmp_path, "CartPole-v1", world_options={"gravity": 5.0})
    path = watch("finished", tmp_path, episodes=1, out=str(tmp_path / "play.gif"))
    with Image.open(path) as image:
        assert image.size == (600, 400)
        assert image.info["duration"] == 40
    assert said()[0] == "showing Gymnasium's CartPole-v1, which does not take the option gravity"


def test_dict_observations_and_masks_in_infos(tmp_path, said):
    make_run(tmp_path, f"{WORLDS}:Corridor", "dqn")
    pictures = frames_of(watch("finished", tmp_path, episodes=1))
    assert len(pictures) == 6 + 7
    assert said() == ["episode 1: return 6, 6 steps, succeeded"]


@pytest.mark.slow
def test_an_env_without_render_modes_may_draw_all_the_same(tmp_path, said):
    make_run(tmp_path, f"{WORLDS}:Endless")
    path = watch("finished", tmp_path, out=tmp_path / "play.mp4", fps=10)
    pictures = frames_of(path)
    assert pictures[0].shape == (202, 304, 3)
    assert len(pictures) == 30 * 10
    assert said() == ["episode 1: return 150 so far; cut after 30 seconds"]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("Unseen", r"\w+-Unseen cannot be shown: its render\(\) should return an array, and returned None"),
        ("Broken", r"\w+-Broken cannot be shown: its render\(\) fails: no OpenGL"),
        ("Touchy", "Touchy cannot be shown: made with render_mode='rgb_array' it fails: the camera is broken"),
        ("Dark", r"Dark cannot be shown: give Dark a method render\(state, params, mode\)"),
    ],
)
def test_worlds_that_cannot_be_seen(tmp_path, world, words, said):
    run = make_run(tmp_path, f"{WORLDS}:{world}")
    with pytest.raises(RunError, match=words):
        watch("finished", tmp_path)
    trained = open_run("finished", tmp_path, best=False)
    assert record_end(trained.world, trained.agent, run.videos / "agent.mp4", seed=1) is None
    assert len(said()) == 1 and said()[0].startswith("no video was recorded: ")


@pytest.mark.parametrize("world", ["CartPole-v1", "hockey"])
def test_without_pygame_the_extra_is_named(tmp_path, monkeypatch, world):
    make_run(tmp_path, world)
    loaded = [name for name in sys.modules if name.startswith("pygame.")]  # some of them import others when looked at
    for name in {"pygame", "pygame.font", "pygame.gfxdraw", *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    load_pygame.cache_clear()
    with pytest.raises(RunError, match=rf"{world} cannot be shown: .*pygame.*: pip install 'rookery\[render\]'$"):
        watch("finished", tmp_path)


def test_a_run_ends_with_a_video(tmp_path, said):
    run = make_run(tmp_path, f"{WORLDS}:Corridor")
    world = find(f"{WORLDS}:Corridor")
    path = record_end(world, load_agent(run), run.videos / "agent.mp4", seed=5)
    assert path == run.videos / "agent.mp4"
    assert len(frames_of(path)) == 5 * (6 + 7), "five short episodes"
    assert said()[-1] == f"a video of the agent is in {path}"


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"episodes": 0}, "episodes"),
        ({"fps": 0}, "fps should be above 0"),
        ({"out": "a.mp4", "live": True}, "not both"),
        ({"out": "a.avi"}, "should end in .mp4, .gif or .webp, got 'a.avi'"),
    ],
)
def test_wishes_that_cannot_be_met(tmp_path, wish, words):
    make_run(tmp_path)
    with pytest.raises(OptionError, match=words):
        watch("finished", tmp_path, **wish)


# --- windows ------------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("world", ["hockey", "Pendulum-v1", f"{WORLDS}:Corridor"])
def test_a_window(tmp_path, monkeypatch, said, world):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    options = {"hockey": {"time_limit": 9}, "Pendulum-v1": {"max_episode_steps": 9}}.get(world, {})
    make_run(tmp_path, world, world_options=options)
    assert watch("finished", tmp_path, episodes=1, live=True, fps=200) is None
    assert len(said()) == 1 and said()[0].startswith("episode 1: ")


def test_a_window_that_is_closed_ends_the_show(tmp_path, monkeypatch):
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    run = make_run(tmp_path, "Pendulum-v1")
    agent = load_agent(run)
    with open_rendered(find("Pendulum-v1"), live=True, fps=500) as shown:
        for step, _ in zip(count(), play(shown, agent, 1, PlayLimits.for_episodes(None)), strict=False):
            if step == 3:
                assert not shown.closed
                pygame.event.post(pygame.event.Event(pygame.QUIT))
            if shown.closed:
                break
        assert step == 3


def test_without_a_screen_there_is_no_window(tmp_path, monkeypatch):
    for name in rendered_env.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rendered_env.sys, "platform", "linux")
    make_run(tmp_path)
    with pytest.raises(RunError, match="no screen for a window here"):
        watch("finished", tmp_path, live=True)
