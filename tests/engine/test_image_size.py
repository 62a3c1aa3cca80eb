"""Images shrunk in the worker: averages of areas, the same on every machine, for every space that holds an image."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rookery.engine.wrapping import ResizeImages, largest_image, shrink_image, size_of, with_image_size
from rookery.errors import OptionError


class Shown(gym.Env):
    """Gives samples of its observation space."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space) -> None:
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen = self.observation_space.sample()
        return seen, 0.0, False, False, {"obs_agent_two": seen}


def box(*shape: int, dtype: Any = np.uint8) -> spaces.Box:
    return spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)


def averages(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The same by a matrix for each axis, in floating point; height and width first."""

    def shares(long: int, short: int) -> np.ndarray:
        lows, highs = (np.arange(k, short + k)[:, None] * long / short for k in (0, 1))
        pixels = np.arange(long)
        return np.clip(np.minimum(highs, pixels + 1) - np.maximum(lows, pixels), 0, None) * short / long

    rows, columns = shares(image.shape[0], size[0]), shares(image.shape[1], size[1])
    return np.einsum("ij,jk...,lk->il...", rows, image.astype(np.float64), columns, optimize=True)


@pytest.mark.parametrize(("shape", "size"), [((100, 60), (84, 84)), ((90, 120, 3), (30, 40)), ((37, 53, 4), (11, 7))])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_each_pixel_is_the_average_of_its_area(shape: tuple[int, ...], size: tuple[int, int], dtype: Any) -> None:
    """Also where a pixel belongs to two areas; integers are rounded, floats are not."""
    size = min(size[0], shape[0]), min(size[1], shape[1])
    image = (np.random.default_rng(1).random(shape) * 200).astype(dtype)
    small, expected = shrink_image(image, (0, 1), size), averages(image, size)
    assert small.dtype == dtype and small.shape == (*size, *shape[2:])
    assert np.abs(small - expected).max() <= (1e-4 if dtype == np.float32 else 0.5 + 1e-9)


def test_black_and_white_stay() -> None:
    """The extremes are not rounded away, and no sum overflows."""
    for value in (0, 255):
        assert (shrink_image(np.full((1000, 900, 3), value, np.uint8), (0, 1), (84, 84)) == value).all()


def test_channels_first_and_last_agree() -> None:
    image = np.random.default_rng(2).integers(0, 256, (64, 48, 3), dtype=np.uint8)
    first = shrink_image(image.transpose(2, 0, 1), (1, 2), (20, 20))
    np.testing.assert_array_equal(first.transpose(1, 2, 0), shrink_image(image, (0, 1), (20, 20)))


@pytest.mark.parametrize(
    ("space", "size", "shape"),
    [
        (box(300, 200, 3), (84, 84), (84, 84, 3)),
        (box(3, 200, 300), (84, 96), (3, 84, 96)),
        (box(300, 40, 3), (84, 84), (84, 40, 3)),  # a side that is shorter already stays
        (box(300, 200), (50, 50), (50, 50)),
        (box(120, 120, 3, dtype=np.float32), (60, 60), (60, 60, 3)),
    ],
)
def test_the_space_is_that_of_what_the_env_gives(space: spaces.Box, size: tuple[int, int], shape: Any) -> None:
    env = with_image_size(Shown(space), size)
    assert env.observation_space.shape == shape and env.observation_space.dtype == space.dtype
    assert env.reset(seed=1)[0] in env.observation_space
    observation, *_, info = env.step(0)
    assert observation in env.observation_space
    np.testing.assert_array_equal(info["obs_agent_two"], observation)  # the second player's view, in games for two


def test_images_within_other_observations() -> None:
    """Those in a Dict or Tuple are shrunk, and nothing else is."""
    space = spaces.Dict(camera=box(200, 200, 3), pair=spaces.Tuple([box(200, 100), box(5)]), speed=box(300))
    env = with_image_size(Shown(space), (84, 84))
    seen, _ = env.reset(seed=3)
    assert seen in env.observation_space
    assert seen["camera"].shape == (84, 84, 3) and seen["pair"][0].shape == (84, 84) and seen["speed"].shape == (300,)


def test_auto_leaves_usual_images_alone() -> None:
    """256 x 256 pixels stay as they are, one row more is shrunk; so is nothing that is not an image, whatever its
    size."""
    for space in (box(84, 84, 4), box(210, 160, 3), box(256, 256, 3), box(200_000), spaces.Discrete(3)):
        env = Shown(space)
        assert with_image_size(env, "auto") is env
    shrunk = with_image_size(Shown(box(257, 256, 3)), "auto")
    assert isinstance(shrunk, ResizeImages) and shrunk.observation_space.shape == (84, 84, 3)
    whole = Shown(box(1000, 1000, 3))
    assert with_image_size(whole, "full") is whole


def test_a_size_without_an_image_is_refused() -> None:
    with pytest.raises(OptionError, match=r"`image_size` = \[84, 84\]: the observation has no image"):
        with_image_size(Shown(box(5)), (84, 84))


def test_sizes_as_the_config_names_them() -> None:
    assert size_of(84) == (84, 84) and size_of([60, 80]) == (60, 80) and size_of("full") == "full"
    assert largest_image(spaces.Dict(a=box(20, 30), b=box(8))) == 600 and largest_image(box(8)) == 0
