"""From the frames of a game to what an agent sees: two frames pooled, in grey or colour, shrunk.

The results equal those of ALE's own conversion and of OpenCV's INTER_AREA, bit for bit. OpenCV takes 118 us for a frame
on one core of an aarch64 machine, `_screen.c` 16 to 19 us where rows repeat, as in Pong and Breakout, and up to 83 us
elsewhere; a frame of the emulator takes 100 to 170 us. Without a C compiler the functions here do the same, slower.
"""

from __future__ import annotations

import importlib
import math
import platform
from functools import cache
from typing import Any

import numpy as np

FUSED = platform.machine() in ("aarch64", "arm64")  # whether OpenCV is compiled with fused multiply-adds
NEARLY = 1e-3  # of a pixel, which OpenCV leaves out
UNKNOWN = -1  # in a palette: a colour that no frame has had so far


@cache
def area_table(length: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Which pixels of a row each of its `parts` covers, and how much they count: indices and weights, [parts, most].

    >>> indices, weights = area_table(5, 2)
    >>> indices.tolist(), (5 * weights).tolist()
    ([[0, 1, 2], [2, 3, 4]], [[2.0, 2.0, 1.0], [1.0, 2.0, 2.0]])
    """
    found = [_covered(part * (length / parts), length / parts, length) for part in range(parts)]
    most = max(map(len, found))
    padded = [pixels + [(pixels[-1][0], 0.0)] * (most - len(pixels)) for pixels in found]
    table = np.array(padded)
    return np.ascontiguousarray(table[..., 0], np.int32), np.ascontiguousarray(table[..., 1], np.float32)


def _covered(start: float, size: float, length: int) -> list[tuple[int, float]]:
    """The pixels from `start` to `start + size`, with their shares of it, as OpenCV computes them."""
    stop, cell = start + size, min(size, length - start)
    last = min(math.floor(stop), length - 1)
    first = min(math.ceil(start), last)
    pixels = [(pixel, 1.0 / cell) for pixel in range(first, last)]
    if first - start > NEARLY:
        pixels.insert(0, (first - 1, (first - start) / cell))
    if stop - last > NEARLY:
        pixels.append((last, min(stop - last, 1.0, cell) / cell))
    return pixels


# --- what is done to each frame ---------------------------------------------------------------------------------------


def plain_colour(screen: np.ndarray, palette: np.ndarray, picture: np.ndarray) -> bool:
    """Write the palette's value of each pixel into `picture`; False if a colour is unknown."""
    shades = palette[screen]
    picture[...] = shades.astype(np.uint8)
    return bool((shades != UNKNOWN).all())


def plain_shrink(
    picture: np.ndarray,
    columns: np.ndarray,
    column_weights: np.ndarray,
    rows: np.ndarray,
    row_weights: np.ndarray,
    small: np.ndarray,
) -> None:
    """Write the averages of equal areas into `small`, in the order and the precision of OpenCV."""
    pixels = picture.astype(np.float32)
    narrow = np.zeros((len(picture), len(columns)), np.float32)
    for k in range(columns.shape[1]):
        narrow = _add_product(narrow, pixels[:, columns[:, k]], column_weights[:, k])
    sums = row_weights[:, :1] * narrow[rows[:, 0]]
    for k in range(1, rows.shape[1]):
        sums = _add_product(sums, narrow[rows[:, k]], row_weights[:, k : k + 1])
    small[...] = np.rint(sums)


def _add_product(sums: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`sums + values * weights`, rounded once or twice. The product of two floats is exact as a double."""
    if not FUSED:
        return sums + values * weights
    return (sums + values.astype(np.float64) * weights.astype(np.float64)).astype(np.float32)


try:
    _compiled: Any = importlib.import_module("rookery.worlds.atari._screen")
    colour, shrink = _compiled.colour, _compiled.shrink
except ImportError:  # no C compiler when rookery was installed
    colour, shrink = plain_colour, plain_shrink


# --- the screen of one game -------------------------------------------------------------------------------------------

_palettes: dict[tuple[Any, ...], np.ndarray] = {}


class Screen:
    """The pictures of one emulator: `pictures[0]` is the newest, pooled or not, `pictures[1]` the one before it."""

    def __init__(self, ale: Any, game: str, size: tuple[int, int], coloured: bool) -> None:
        self._ale = ale
        height, width = ale.getScreenDims()
        channels = 3 if coloured else 1
        self._raw = np.empty((height, width), np.uint8)
        self._palette = _palettes.setdefault((game, channels), np.full((channels, 256), UNKNOWN, np.int16))
        self.pictures = np.zeros((2, channels, height, width), np.uint8)
        self._tables = *area_table(width, size[1]), *area_table(height, size[0])
        self._small = np.empty(size, np.uint8)

    def capture(self, place: int) -> None:
        """Keep the frame that the emulator shows now."""
        self._ale.getScreen(self._raw)
        for palette, picture in zip(self._palette, self.pictures[place], strict=True):
            if not colour(self._raw, palette, picture):
                self._learn_colours()
                colour(self._raw, palette, picture)

    def pool(self) -> None:
        """The brighter of both frames, pixel by pixel: some games draw their objects in every second frame."""
        np.maximum(self.pictures[0], self.pictures[1], out=self.pictures[0])

    def shrink_to(self, small: np.ndarray) -> None:
        """Write the newest picture, [height, width] or [height, width, 3]."""
        if small.ndim == 2:
            shrink(self.pictures[0, 0], *self._tables, small)
            return
        for channel, picture in enumerate(self.pictures[0]):
            shrink(picture, *self._tables, self._small)
            small[..., channel] = self._small

    def _learn_colours(self) -> None:
        """ALE does not tell its palette: it is read off the frames that it converts."""
        channels = len(self._palette)
        shown = self._ale.getScreenRGB() if channels == 3 else self._ale.getScreenGrayscale()[..., None]
        for channel in range(channels):
            self._palette[channel][self._raw] = shown[..., channel]
