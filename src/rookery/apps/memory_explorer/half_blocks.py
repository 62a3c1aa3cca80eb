"""The screen in half blocks: each character of a terminal shows two pixels, one above the other, in greys."""

from __future__ import annotations

from itertools import groupby

import numpy as np

SHRINKS = (1, 2, 4, 8)
BLACKEST, GREYS = 232, 24  # of the 256 colours that every terminal has
UPPER, PLAIN = "▀", "\x1b[0m"


def choose_shrink(columns: int, rows: int) -> int:
    """The factor by which a screen of 160 x 144 pixels must be shrunk to fit a terminal of this size.

    >>> choose_shrink(200, 80), choose_shrink(120, 40), choose_shrink(80, 24)
    (1, 2, 4)
    """
    return next((k for k in SHRINKS if 160 // k <= columns and 72 // k <= rows), SHRINKS[-1])


def half_blocks(picture: np.ndarray, shrink: int) -> list[str]:
    """Rows of characters with their colours."""
    grey = picture.mean(axis=2)
    height, width = (side // shrink for side in grey.shape)
    small = grey[: height * shrink, : width * shrink].reshape(height, shrink, width, shrink).mean(axis=(1, 3))
    levels = BLACKEST + (small / 256 * GREYS).astype(int)
    return [_row(upper, lower) for upper, lower in zip(levels[::2], levels[1::2], strict=True)]


def _row(upper: np.ndarray, lower: np.ndarray) -> str:
    """Colours are written once for neighbours that share them."""
    runs = groupby(zip(upper.tolist(), lower.tolist(), strict=True))
    return "".join(f"\x1b[38;5;{a};48;5;{b}m{UPPER * len(list(run))}" for (a, b), run in runs) + PLAIN
