"""Many pictures as one, side by side, with a mark around those whose episode has just ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.training.show.video import as_rgb

WIDTH, HEIGHT = 1280, 960  # pixels that the whole may fill; more than a screen shows helps nobody
SHAPE = 1.5  # of its width to its height, as far as there is a choice
EDGE = 4  # pixels around a picture, which the mark fills
STRIP = 8  # pixels beneath it, where a tick stands for each episode that ended
TICK = 5
GROUND = (22, 22, 26)
COLOURS = {
    "won": (96, 200, 112), "succeeded": (96, 200, 112), "lost": (222, 88, 80), "failed": (222, 88, 80),
    "drawn": (228, 190, 92), "": (150, 158, 172),
}  # fmt: skip


@dataclass
class Tile:
    """One picture, and what is to be seen around it."""

    picture: np.ndarray
    ends: Sequence[str]  # how its episodes ended so far, in the words of COLOURS
    marked: bool = False  # the last of them just now
    dimmed: bool = False  # nothing more will happen here


class Mosaic:
    """Lays out a number of pictures like the first one; later ones of other sizes are made to fit."""

    def __init__(self, count: int, first: np.ndarray) -> None:
        height, width = first.shape[:2]
        self.columns = choose_columns(count, width / height)
        self.rows = math.ceil(count / self.columns)
        zoom = min(WIDTH / (self.columns * width), HEIGHT / (self.rows * height))
        self._larger, self._smaller = max(1, math.floor(zoom)), max(1, math.ceil(1 / zoom))
        self._size = height // self._smaller * self._larger, width // self._smaller * self._larger

    def draw(self, tiles: Sequence[Tile]) -> np.ndarray:
        """The whole, as (height, width, 3) bytes."""
        height, width = self._size[0] + 2 * EDGE + STRIP, self._size[1] + 2 * EDGE
        whole = np.empty((self.rows * height, self.columns * width, 3), np.uint8)
        whole[:] = GROUND
        for k, tile in enumerate(tiles):
            top, left = k // self.columns * height, k % self.columns * width
            self._place(tile, whole[top : top + height, left : left + width])
        return whole

    def _place(self, tile: Tile, cell: np.ndarray) -> None:
        height, width = self._size
        if tile.marked and tile.ends:
            cell[: height + 2 * EDGE] = COLOURS[tile.ends[-1]]
        picture = self._fitted(as_rgb(tile.picture))
        cell[EDGE : EDGE + height, EDGE : EDGE + width] = picture // 2 if tile.dimmed else picture
        room = width // (TICK + 3)
        for k, end in enumerate(tile.ends[-room:]):
            left, top = EDGE + k * (TICK + 3), height + 2 * EDGE + 1
            cell[top : top + TICK, left : left + TICK] = COLOURS[end]

    def _fitted(self, picture: np.ndarray) -> np.ndarray:
        height, width = self._size
        less, more = self._smaller, self._larger
        if picture.shape[0] // less * more != height or picture.shape[1] // less * more != width:
            rows = np.arange(height) * picture.shape[0] // height
            return picture[rows][:, np.arange(width) * picture.shape[1] // width]
        if less > 1:
            return _shrunk(picture, less)
        return picture.repeat(more, axis=0).repeat(more, axis=1)


def _shrunk(picture: np.ndarray, times: int) -> np.ndarray:
    """Each pixel the mean of a square of them; as a sum of slices, which is ten times quicker than `mean`."""
    height, width = (side // times * times for side in picture.shape[:2])
    total = np.zeros((height // times, width // times, 3), np.uint32)
    for row in range(times):
        for column in range(times):
            total += picture[row:height:times, column:width:times]
    return (total // times**2).astype(np.uint8)


def choose_columns(count: int, shape: float) -> int:
    """How many pictures stand side by side, for a whole that suits a screen and leaves few places empty; `shape` is a
    picture's width by its height.

    >>> [choose_columns(count, 160 / 144) for count in (1, 2, 4, 6, 16)]
    [1, 2, 2, 3, 4]
    """

    def badness(columns: int) -> float:
        rows = math.ceil(count / columns)
        return abs(math.log(columns * shape / rows / SHAPE)) + (rows * columns - count) / count

    return min(range(1, count + 1), key=badness)
