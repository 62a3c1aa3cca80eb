"""Which boxes are images, and where their height and width are. No torch here: workers shrink images too."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

SMALLEST_IMAGE = 8  # pixels a side; smaller three-dimensional boxes are read as vectors
SMALL_IMAGE = 12  # pixels; with a shorter side, images are read as vectors too (option `images`)


def image_axes(space: spaces.Space) -> tuple[int, int] | None:
    """The axes of height and width; None if the space is no image.

    >>> image_axes(spaces.Box(0, 255, (3, 64, 80), np.uint8)), image_axes(spaces.Box(-1, 1, (4,)))
    ((1, 2), None)
    """
    if not isinstance(space, spaces.Box):
        return None
    shape = space.shape
    if len(shape) == 3:
        axes = (0, 1) if channels_last(shape) else (1, 2)
    elif len(shape) == 2 and space.dtype == np.uint8:
        axes = (0, 1)
    else:
        return None
    return axes if min(shape[axis] for axis in axes) >= SMALLEST_IMAGE else None


def is_read_flat(space: spaces.Space) -> bool:
    """Whether a Box with several axes, such as a small image or a board, is read as one vector.

    >>> [is_read_flat(spaces.Box(0, 255, shape, np.uint8)) for shape in ((10, 10), (10, 10, 3), (84, 84), (5,))]
    [True, True, False, False]
    """
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        return False
    axes = image_axes(space)
    return axes is None or min(space.shape[axis] for axis in axes) < SMALL_IMAGE


def channels_last(shape: tuple[int, ...]) -> bool:
    """Screens and boards are mostly square; where that does not decide, there are fewer channels than pixels."""
    if (shape[0] == shape[1]) != (shape[1] == shape[2]):
        return shape[0] == shape[1]
    return shape[2] < shape[0]
