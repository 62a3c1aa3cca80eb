"""The pictures of Atari games, against OpenCV's and the same in Python."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.worlds.atari import screen


def pictures() -> list[np.ndarray]:
    """Noise, and large areas of few shades, whose averages are often halfway between two integers."""
    random = np.random.default_rng(0)
    shades = np.array([0, 92, 110, 147, 236], np.uint8)
    rows = np.repeat(random.choice(shades, (42, 160)), 5, axis=0)
    return [random.integers(0, 256, (210, 160)).astype(np.uint8), random.choice(shades, (210, 160)), rows]


def shrunk(shrink, picture: np.ndarray, size: tuple[int, int] = (84, 84)) -> np.ndarray:
    small = np.empty(size, np.uint8)
    height, width = picture.shape
    shrink(picture, *screen.area_table(width, size[1]), *screen.area_table(height, size[0]), small)
    return small


@pytest.mark.parametrize("size", [(84, 84), (64, 96), (210, 160)])
def test_compiled_equals_python(size: tuple[int, int]) -> None:
    compiled = pytest.importorskip("rookery.worlds.atari._screen", reason="no C compiler when rookery was installed")
    for picture in pictures():
        assert np.array_equal(shrunk(compiled.shrink, picture, size), shrunk(screen.plain_shrink, picture, size))


def test_pictures_equal_those_of_opencv() -> None:
    cv2 = pytest.importorskip("cv2")
    for picture in pictures():
        expected = cv2.resize(picture, (84, 84), interpolation=cv2.INTER_AREA)
        assert np.array_equal(shrunk(screen.shrink, picture), expected)


def test_areas_are_averaged() -> None:
    picture = np.zeros((210, 160), np.uint8)
    picture[:105] = 200
    small = shrunk(screen.shrink, picture)
    assert (small[:42] == 200).all() and (small[42:] == 0).all()


@pytest.mark.parametrize("colour", [screen.colour, screen.plain_colour])
def test_unknown_colours_are_noticed(colour) -> None:
    palette = np.full(256, screen.UNKNOWN, np.int16)
    palette[:10] = np.arange(10) * 20
    shown, picture = np.tile(np.arange(10, dtype=np.uint8), (3, 1)), np.empty((3, 10), np.uint8)
    assert colour(shown, palette, picture) and np.array_equal(picture, shown * 20)
    shown[2, 4] = 77
    assert not colour(shown, palette, picture)


def test_compiled_functions_refuse_what_does_not_fit() -> None:
    compiled = pytest.importorskip("rookery.worlds.atari._screen", reason="no C compiler when rookery was installed")
    picture, small = np.zeros((210, 160), np.uint8), np.zeros((84, 84), np.uint8)
    columns, rows = screen.area_table(160, 84), screen.area_table(210, 84)
    for wrong in (
        (picture[:100].copy(), *columns, *rows, small),
        (picture, *columns, *rows, small[:80].copy()),
        (picture, columns[0], columns[1][:3].copy(), *rows, small),
        (picture.astype(np.int16), *columns, *rows, small),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            compiled.shrink(*wrong)
    with pytest.raises(ValueError, match="do not fit"):
        compiled.colour(picture, np.zeros(100, np.int16), picture)
