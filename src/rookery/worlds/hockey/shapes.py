"""Two polygons laid out side by side in the scratch memory, and how far apart they are.

Each takes one of two slots of seven corners.
"""

import math
from typing import Any

from rookery.worlds.hockey.field import (
    GROUND,
    RACKET_CORNERS,
    RACKET_NORMAL_X,
    RACKET_NORMAL_Y,
    RACKET_X,
    RACKET_Y,
    STATIC_CORNERS,
    STATIC_NORMAL_X,
    STATIC_NORMAL_Y,
    STATIC_X,
    STATIC_Y,
)

FIRST = 0
SECOND = 7


def lay_racket(scratch: Any, slot: int, racket: int, x: float, y: float, cos: float, sin: float) -> None:
    """Puts a racket whose centre of mass is at (x, y) into a slot."""
    scratch.corners[slot // SECOND] = RACKET_CORNERS
    scratch.owner[slot // SECOND] = racket
    for k in range(RACKET_CORNERS):
        own = racket * RACKET_CORNERS + k
        scratch.corner_x[slot + k] = x + cos * RACKET_X[own] - sin * RACKET_Y[own]
        scratch.corner_y[slot + k] = y + sin * RACKET_X[own] + cos * RACKET_Y[own]
        scratch.face_x[slot + k] = cos * RACKET_NORMAL_X[own] - sin * RACKET_NORMAL_Y[own]
        scratch.face_y[slot + k] = sin * RACKET_NORMAL_X[own] + cos * RACKET_NORMAL_Y[own]


def lay_static(scratch: Any, slot: int, static: int) -> None:
    """Puts a wall, post or goal into a slot."""
    scratch.corners[slot // SECOND] = STATIC_CORNERS
    scratch.owner[slot // SECOND] = GROUND
    for k in range(STATIC_CORNERS):
        own = static * STATIC_CORNERS + k
        scratch.corner_x[slot + k] = STATIC_X[own]
        scratch.corner_y[slot + k] = STATIC_Y[own]
        scratch.face_x[slot + k] = STATIC_NORMAL_X[own]
        scratch.face_y[slot + k] = STATIC_NORMAL_Y[own]


def following(scratch: Any, slot: int, corner: int) -> int:
    """The corner after this one; the face between the two has this one's number."""
    after = corner + 1
    return slot if after == slot + scratch.corners[slot // SECOND] else after


def lowest_corner(scratch: Any, slot: int, axis_x: float, axis_y: float) -> int:
    """The corner that lies furthest against a direction."""
    best = slot
    least = scratch.corner_x[slot] * axis_x + scratch.corner_y[slot] * axis_y
    for k in range(slot + 1, slot + scratch.corners[slot // SECOND]):
        height = scratch.corner_x[k] * axis_x + scratch.corner_y[k] * axis_y
        if height < least:
            least = height
            best = k
    return best


def height_over_face(scratch: Any, face: int, corner: int) -> float:
    """How far a corner is in front of a face."""
    dx = scratch.corner_x[corner] - scratch.corner_x[face]
    dy = scratch.corner_y[corner] - scratch.corner_y[face]
    return dx * scratch.face_x[face] + dy * scratch.face_y[face]


def widest_gap(scratch: Any, slot: int, other: int) -> tuple[float, int]:
    """(gap, face) of the face of one polygon that best separates it from the other."""
    gap, face = -math.inf, slot
    for k in range(slot, slot + scratch.corners[slot // SECOND]):
        nearest = lowest_corner(scratch, other, scratch.face_x[k], scratch.face_y[k])
        height = height_over_face(scratch, k, nearest)
        if height > gap:
            gap, face = height, k
    return gap, face
