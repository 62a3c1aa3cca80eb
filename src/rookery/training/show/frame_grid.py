"""The frames of many envs as one image: side by side, with a border around those whose episode has just ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rookery.training.show.video import as_rgb

MAX_WIDTH, MAX_HEIGHT = 1280, 960  # pixels of the whole image, as larger ones fit no screen
ASPECT = 1.5  # width / height of the whole image, as far as there is a choice
BORDER = 4  # pixels around a frame, coloured when an episode ends
STRIP = 8  # pixels beneath a frame, with one mark per episode that has ended
MARK = 5  # pixels, the side of a mark
GAP = 3  # pixels between marks
BACKGROUND = (22, 22, 26)
COLOURS = {
    "won": (96, 200, 112), "succeeded": (96, 200, 112), "lost": (222, 88, 80), "failed": (222, 88, 80),
    "drawn": (228, 190, 92), "": (150, 158, 172),
}  # fmt: skip


@dataclass
class GridCell:
    """One frame of the image, and what is drawn around it."""

    frame: np.ndarray
    outcomes: Sequence[str]  # of the episodes so far: keys of COLOURS
    highlighted: bool = False  # the last episode has just ended
    dimmed: bool = False  # no more episodes follow


class FrameGrid:
    """Lays out `count` frames of the size of the first one; frames of other sizes are resized."""

    def __init__(self, count: int, first: np.ndarray) -> None:
        height, width = first.shape[:2]
        self.columns = choose_columns(count, width / height)
        self.rows = math.ceil(count / self.columns)
        zoom = min(MAX_WIDTH / (self.columns * width), MAX_HEIGHT / (self.rows * height))
        self._enlarge, self._shrink = max(1, math.floor(zoom)), max(1, math.ceil(1 / zoom))
        self._size = height // self._shrink * self._enlarge, width // self._shrink * self._enlarge

    def draw(self, cells: Sequence[GridCell]) -> np.ndarray:
        """The whole image, as (height, width, 3) bytes."""
        height, width = self._size[0] + 2 * BORDER + STRIP, self._size[1] + 2 * BORDER
        image = np.empty((self.rows * height, self.columns * width, 3), np.uint8)
        image[:] = BACKGROUND
        for k, cell in enumerate(cells):
            top, left = k // self.columns * height, k % self.columns * width
            self._draw_cell(cell, image[top : top + height, left : left + width])
        return image

    def _draw_cell(self, cell: GridCell, part: np.ndarray) -> None:
        height, width = self._size
        if cell.highlighted and cell.outcomes:
            part[: height + 2 * BORDER] = COLOURS[cell.outcomes[-1]]
        frame = self._resized(as_rgb(cell.frame))
        part[BORDER : BORDER + height, BORDER : BORDER + width] = frame // 2 if cell.dimmed else frame
        max_marks = width // (MARK + GAP)
        for k, outcome in enumerate(cell.outcomes[-max_marks:]):
            left, top = BORDER + k * (MARK + GAP), height + 2 * BORDER + 1
            part[top : top + MARK, left : left + MARK] = COLOURS[outcome]

    def _resized(self, frame: np.ndarray) -> np.ndarray:
        height, width = self._size
        less, more = self._shrink, self._enlarge
        if frame.shape[0] // less * more != height or frame.shape[1] // less * more != width:
            rows = np.arange(height) * frame.shape[0] // height
            return frame[rows][:, np.arange(width) * frame.shape[1] // width]
        if less > 1:
            return _shrunk(frame, less)
        return frame.repeat(more, axis=0).repeat(more, axis=1)


def _shrunk(frame: np.ndarray, times: int) -> np.ndarray:
    """Each pixel is the mean of a square of pixels, as a sum of slices: ten times faster than `mean`."""
    height, width = (side // times * times for side in frame.shape[:2])
    total = np.zeros((height // times, width // times, 3), np.uint32)
    for row in range(times):
        for column in range(times):
            total += frame[row:height:times, column:width:times]
    return (total // times**2).astype(np.uint8)


def choose_columns(count: int, aspect: float) -> int:
    """How many frames to put side by side, for an image near `ASPECT` with few empty cells; `aspect` is the frame's
    width / height.

    >>> [choose_columns(count, 160 / 144) for count in (1, 2, 4, 6, 16)]
    [1, 2, 2, 3, 4]
    """

    def cost(columns: int) -> float:
        rows = math.ceil(count / columns)
        return abs(math.log(columns * aspect / rows / ASPECT)) + (rows * columns - count) / count

    return min(range(1, count + 1), key=cost)
