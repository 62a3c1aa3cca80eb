"""Catch: what is on the screen, what is worth a reward, and the same pictures on every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.make_vec import make_vec
from rookery.engine.settings import Settings, autoreset
from rookery.worlds.catch import BALL, FLIGHT, FRAMES, LANDING, PADDLE, SIZE, SKY, Catch

pytestmark = pytest.mark.usefixtures("plain_python")


def place_of(picture: np.ndarray) -> tuple[int, int, int]:
    """Row and column of the ball, and the column of the paddle, in one frame."""
    rows, columns = np.nonzero(picture[:SKY])
    assert len(rows) == BALL * BALL and set(np.unique(picture)) <= {0, 255}
    paddle = np.flatnonzero(picture[SKY])
    assert len(paddle) == PADDLE and SKY == SIZE - 1
    return int(rows[0]), int(columns[0]), int(paddle[0])


def chase(picture: np.ndarray) -> int:
    _, ball, paddle = place_of(picture)
    gap = ball + BALL // 2 - (paddle + PADDLE // 2)
    return 0 if abs(gap) < 2 else 1 if gap < 0 else 2


def follow(screens: np.ndarray) -> np.ndarray:
    return np.array([chase(screen[..., 0]) for screen in screens])


@pytest.fixture(scope="module")
def envs():
    """Compiled once for all tests."""
    made = make_vec("rookery/Catch-v0", 6, backend="kernel", autoreset_mode="same_step")
    yield made
    made.close()


def test_frames_are_those_of_the_last_steps(envs):
    screens, _ = envs.reset(seed=1)
    assert screens.shape == (6, SIZE, SIZE, FRAMES) and screens.dtype == np.uint8
    newest = [screens[..., 0].copy()]
    for step in range(1, FLIGHT):
        screens, rewards, *_ = envs.step(follow(screens))
        places = [place_of(screen[..., 0]) for screen in screens]
        assert not rewards.any() and all(row == 2 * step and 0 <= column <= SIZE - BALL for row, column, _ in places)
        newest.append(screens[..., 0].copy())
        for age in range(min(FRAMES, step + 1)):
            assert np.array_equal(screens[..., age], newest[step - age])


@pytest.mark.slow
def test_who_follows_the_ball_catches_all(envs):
    screens, _ = envs.reset(seed=3)
    returns, truncated = np.zeros(6), np.zeros(6, bool)
    while not truncated.any():
        screens, rewards, terminated, truncated, _ = envs.step(follow(screens))
        returns += rewards
        assert not terminated.any()
    assert truncated.all() and (returns == 1_000 // FLIGHT).all()


def test_a_miss_ends_the_episode(envs):
    """The paddle goes to the left and stays there."""
    envs.reset(seed=2)
    for _ in range(FLIGHT):
        _, rewards, terminated, truncated, infos = envs.step(np.ones(6, int))
    assert np.array_equal(rewards == 1.0, ~terminated) and terminated.any() and not truncated.any()
    for screen in infos["final_obs"][terminated]:
        row, column, paddle = place_of(screen[..., 0])
        assert row == LANDING and paddle == 0 and column >= PADDLE


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_gpu_shows_the_same(mode):
    envs = make_vec("rookery/Catch-v0", 3, backend="kernel", autoreset_mode=mode)
    gpu = CudaEngine(resolve(Catch), Settings(3, autoreset_mode=autoreset(mode), copy=True), device="cpu")
    assert np.array_equal(envs.reset(seed=5)[0], gpu.reset(seed=5)[0])
    ends = 0
    for step in range(2 * FLIGHT + 2):
        actions = np.array([step % 3, 1, 2])
        mine, its = envs.step(actions), gpu.step(torch.from_numpy(actions))
        for a, b in zip(mine[:4], its[:4], strict=True):
            assert np.array_equal(a, b)
        ended = mine[2] | mine[3]
        ends += ended.sum()
        if mode == "same_step":
            for env in np.flatnonzero(ended):
                assert np.array_equal(mine[4]["final_obs"][env], its[4]["final_obs"][env])
    assert ends >= 3
    envs.close()
    gpu.close()
