"""Many envs on show at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.engine.seeding import child_seed
from rookery.errors import OptionError, RunError
from rookery.training.resolve.world_choice import find
from rookery.training.show import grid, rendered_env
from rookery.training.show.episode import HOLD_SECONDS, PlayLimits
from rookery.training.show.grid import BACKGROUND, BORDER, COLOURS, STRIP, FrameGrid, GridCell
from rookery.training.show.rendered_env import open_rendered_envs
from rookery.training.show.watch import watch
from rookery.training.storage.load_agent import load_agent
from training.finished import STEP, make_run
from training.videos import frames_of

pytestmark = pytest.mark.usefixtures("all_allowed")

WORLDS = Path(__file__).parents[1] / "shown_worlds.py"
CORRIDOR = f"{WORLDS}:Corridor"


# --- pictures -----------------------------------------------------------------------------------------------------


def picture(shade: int, height: int = 144, width: int = 160) -> np.ndarray:
    return np.full((height, width, 3), shade, np.uint8)


def test_pictures_stand_in_rows_with_room_for_marks_between():
    image = FrameGrid(4, picture(0))
    whole = image.draw([GridCell(picture(50 * k), []) for k in range(4)])
    assert (image.rows, image.columns) == (2, 2)
    zoom = 3  # as far as 1280 x 960 allows
    height, width = 144 * zoom + 2 * BORDER + STRIP, 160 * zoom + 2 * BORDER
    assert whole.shape == (2 * height, 2 * width, 3)
    for k in range(4):
        top, left = k // 2 * height, k % 2 * width
        assert (
            whole[top + BORDER : top + BORDER + 144 * zoom, left + BORDER : left + BORDER + 160 * zoom] == 50 * k
        ).all()
        assert (whole[top, left : left + width] == BACKGROUND).all()


def test_the_end_of_an_episode_is_a_border_and_a_tick():
    image = FrameGrid(2, picture(0))
    cells = [
        GridCell(picture(9), ["failed", "succeeded"], highlighted=True),
        GridCell(picture(80), ["lost"], dimmed=True),
    ]
    whole = image.draw(cells)
    width = whole.shape[1] // 2
    assert (whole[0, :width] == COLOURS["succeeded"]).all()
    assert (whole[0, width:] == BACKGROUND).all()
    ticks = whole[-STRIP + 2]
    assert (ticks[BORDER] == COLOURS["failed"]).all() and (ticks[BORDER + 8] == COLOURS["succeeded"]).all()
    assert (ticks[width + BORDER] == COLOURS["lost"]).all()
    assert (whole[BORDER, width + BORDER] == 40).all(), "it has ended"


def test_large_pictures_are_averaged_and_odd_ones_made_to_fit():
    stripes = picture(0, 480, 600)
    stripes[::2] = 200
    image = FrameGrid(16, stripes)
    whole = image.draw([GridCell(stripes, [])] * 15 + [GridCell(picture(70, 33, 500)[:, :, 0], [])])
    assert whole.shape[0] <= 960 + 4 * (2 * BORDER + STRIP) and whole.shape[1] <= 1280 + 4 * 2 * BORDER
    assert (whole[BORDER + 5, BORDER + 5] == 100).all()
    assert (whole[-STRIP - BORDER - 5, -BORDER - 5] == 70).all()


def test_many_pictures_have_a_border_of_one_pixel_and_no_ticks():
    image = FrameGrid(1024, picture(0))
    whole = image.draw([GridCell(picture(90), ["won"], highlighted=k == 0) for k in range(1024)])
    height, width = whole.shape[0] // image.rows, whole.shape[1] // image.columns
    assert (whole[0, :width] == COLOURS["won"]).all() and (whole[0, width : 2 * width] == BACKGROUND).all()
    assert (whole[1 : height - 1, 1 : width - 1] == 90).all()
    assert whole.shape[0] <= 960 and whole.shape[1] <= 1280


# --- shows --------------------------------------------------------------------------------------------------------


def shown(run, world, count, length, **options):
    """Copies of all pictures of a grid."""
    with open_rendered_envs(find(world), [None] * count, fps=10) as envs:
        return list(grid.play_grid(envs, load_agent(run), 3, length, **options))


@pytest.mark.slow
def test_every_env_plays_its_episodes_and_then_darkens(tmp_path, said):
    run = make_run(tmp_path, CORRIDOR, "dqn")
    frames = shown(run, CORRIDOR, 3, PlayLimits.for_episodes(2))
    assert len(frames) == 2 * (6 + round(HOLD_SECONDS * 10)) + 1
    assert said() == ["3 envs, 6 episodes: return 6 on average, 6 succeeded"]
    marked = [(frame[0, 0] == COLOURS["succeeded"]).all() for frame in frames]
    assert marked == 2 * (6 * [False] + 7 * [True]) + [False]
    lit = frames[-2][BORDER + 9, BORDER + 9], frames[-1][BORDER + 9, BORDER + 9]
    assert (lit[1] == lit[0] // 2).all()


def test_what_is_cut_short_is_told(tmp_path, said):
    run = make_run(tmp_path, f"{WORLDS}:Endless")
    frames = shown(run, f"{WORLDS}:Endless", 2, PlayLimits(5, enough_seconds=1.0, max_seconds=2.0))
    assert len(frames) == 2 * 10 + 1
    assert said() == ["2 envs, 0 episodes; 2 more cut short"]


def test_envs_are_seeded_like_those_of_an_engine_and_alike_each_time(tmp_path, monkeypatch):
    run = make_run(tmp_path, "Pendulum-v1")
    with open_rendered_envs(find("Pendulum-v1"), [None] * 3) as envs:
        seeds = []
        for one in envs:
            reset = one.env.reset
            monkeypatch.setattr(one.env, "reset", lambda seed, options, r=reset: (seeds.append(seed), r(seed=seed))[1])
        next(grid.play_grid(envs, load_agent(run), 5, PlayLimits.for_episodes(1)))
    assert seeds == [child_seed(5, k) for k in range(3)]
    first, second = (shown(run, "Pendulum-v1", 2, PlayLimits(1, 0.5, 0.5)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert (first[0][:200, : first[0].shape[1] // 2] != first[0][:200, first[0].shape[1] // 2 :]).any()


@pytest.mark.slow
def test_an_agent_with_a_memory_forgets_at_each_env_s_own_start(tmp_path, said):
    run = make_run(tmp_path, "hockey", world_options={"time_limit": 5}, recurrent=4)
    path = watch("finished", tmp_path, grid=2, episodes=2)
    assert path == run.videos / f"step-{STEP}-grid.mp4"
    assert len(frames_of(path)) == 2 * (5 + 35) + 1
    assert said() and said()[-1].startswith("2 envs, 4 episodes")


@pytest.mark.slow
def test_each_env_has_an_opponent_of_its_own(tmp_path, said):
    make_run(tmp_path, "hockey", world_options={"time_limit": 4})
    path = watch("finished", tmp_path, grid=2, episodes=1, opponent="agent", out=tmp_path / "play.gif")
    assert path.is_file() and said()[-1].startswith("2 envs, 2 episodes")


@pytest.mark.slow
def test_a_note_about_the_world_is_made_once(tmp_path, said):
    make_run(tmp_path, "CartPole-v1", world_options={"gravity": 5.0})
    watch("finished", tmp_path, grid=3, episodes=1, out=tmp_path / "play.gif")
    assert len(said()) == 2 and said()[0].startswith("showing Gymnasium's CartPole-v1")


@pytest.mark.parametrize(("num_envs", "count"), [(8, 8), (4096, 16), ("auto", 16), (None, 16)])
def test_how_many_are_shown_if_nobody_says(num_envs, count):
    assert grid.default_env_count(num_envs) == count


@pytest.mark.slow
def test_as_many_as_the_run_trained_on(tmp_path, said):
    run = make_run(tmp_path, CORRIDOR, "dqn")
    run.write_config(run.read_config() | {"num_envs": 3})
    watch("finished", tmp_path, grid=True, episodes=1)
    assert said()[-1].startswith("3 envs, 3 episodes")


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_a_number_of_envs_that_nobody_could_see(tmp_path, count):
    with pytest.raises(OptionError, match="from 1 to 1024"):
        watch("finished", tmp_path, grid=count)


@pytest.mark.slow
def test_a_grid_in_a_window(tmp_path, monkeypatch, said):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    make_run(tmp_path, CORRIDOR, "dqn")
    assert watch("finished", tmp_path, grid=4, episodes=1, live=True, fps=200) is None
    assert said() == ["4 envs, 4 episodes: return 6 on average, 4 succeeded"]


def test_a_window_of_many_that_is_closed_ends_the_show(monkeypatch):
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    given = 0

    def frames():
        nonlocal given
        for given in range(100):
            if given == 3:
                pygame.event.post(pygame.event.Event(pygame.QUIT))
            yield picture(given)

    grid.show_in_window(frames(), 500, "test")
    assert given == 3


def test_without_a_screen_there_is_no_window(tmp_path, monkeypatch):
    for name in rendered_env.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rendered_env.sys, "platform", "linux")
    make_run(tmp_path, CORRIDOR, "dqn")
    with pytest.raises(RunError, match="no screen for a window here"):
        watch("finished", tmp_path, grid=2, live=True)
