"""When a moving body first meets something static.

Conservative advancement as in Box2D: the closest features of the two shapes give an axis that separates them; the
time at which the gap along it closes is looked for, and there the closest features are found anew.
"""

import math
from typing import Any

from rookery.worlds.hockey.field import PUCK, RADIUS, SKIN, SLOP
from rookery.worlds.hockey.shapes import (
    FIRST,
    SECOND,
    following,
    height_over_face,
    lay_point,
    lay_racket,
    lay_static,
    lowest_corner,
    widest_gap,
)

NEVER = 2.0
TOLERANCE = 0.25 * SLOP
ADVANCES = 20
PUSHES = 8
ROOT_ROUNDS = 50

# What separates two shapes: two corners, a face of the static polygon, or a face of the moving one.
CORNERS = 0
STATIC_FACE = 1
MOVING_FACE = 2


def time_of_impact(scratch: Any, body: int, static: int) -> float:
    """The part of its path after which a body meets a static polygon; NEVER if it does not."""
    lay_static(scratch, FIRST, static)
    target = max(SLOP, RADIUS[body] + SKIN - 3.0 * SLOP)  # they meet with a little overlap, to touch for certain
    part = 0.0
    for _ in range(ADVANCES):
        lay_on_path(scratch, body, part)
        distance = find_axis(scratch)
        if distance <= 0.0:
            return NEVER
        if distance < target + TOLERANCE:
            return part
        part, final = advance_along_axis(scratch, body, part, target)
        if final:
            return part
    return NEVER


def lay_on_path(scratch: Any, body: int, part: float) -> None:
    """Puts a body, as it is after a part of its path, into the second slot."""
    x = scratch.start_x[body] + part * (scratch.x[body] - scratch.start_x[body])
    y = scratch.start_y[body] + part * (scratch.y[body] - scratch.start_y[body])
    if body == PUCK:
        lay_point(scratch, SECOND, x, y)
    else:
        angle = scratch.start_angle[body] + part * (scratch.angle[body] - scratch.start_angle[body])
        lay_racket(scratch, SECOND, body, x, y, math.cos(angle), math.sin(angle))


def find_axis(scratch: Any) -> float:
    """Chooses the axis between the closest features of the two shapes; returns their distance, 0 if they overlap."""
    static_gap, face, corner = widest_gap(scratch, FIRST, SECOND)
    if static_gap > 0.0 and is_over_face(scratch, FIRST, face, corner):
        scratch.axis_kind, scratch.axis_face = STATIC_FACE, face
        return static_gap
    moving_gap, face, corner = widest_gap(scratch, SECOND, FIRST)
    if moving_gap > 0.0 and is_over_face(scratch, SECOND, face, corner):
        scratch.axis_kind, scratch.axis_face = MOVING_FACE, face
        return moving_gap
    return 0.0 if max(static_gap, moving_gap) <= 0.0 else find_axis_of_corners(scratch)


def is_over_face(scratch: Any, slot: int, face: int, corner: int) -> bool:
    """Whether a corner lies straight in front of a face."""
    after = following(scratch, slot, face)
    ax, ay = scratch.corner_x[face], scratch.corner_y[face]
    bx, by = scratch.corner_x[after], scratch.corner_y[after]
    x, y = scratch.corner_x[corner], scratch.corner_y[corner]
    return (x - ax) * (bx - ax) + (y - ay) * (by - ay) > 0.0 and (x - bx) * (ax - bx) + (y - by) * (ay - by) > 0.0


def find_axis_of_corners(scratch: Any) -> float:
    """The axis through the two corners nearest to each other; returns their distance."""
    least, axis_x, axis_y = math.inf, 0.0, 0.0
    for i in range(FIRST, FIRST + scratch.corners[0]):
        for j in range(SECOND, SECOND + scratch.corners[1]):
            dx, dy = scratch.corner_x[j] - scratch.corner_x[i], scratch.corner_y[j] - scratch.corner_y[i]
            if dx * dx + dy * dy < least:
                least, axis_x, axis_y = dx * dx + dy * dy, dx, dy
    distance = math.sqrt(least)
    scratch.axis_kind = CORNERS
    scratch.axis_x, scratch.axis_y = axis_x / distance, axis_y / distance
    return distance


def advance_along_axis(scratch: Any, body: int, part: float, target: float) -> tuple[float, bool]:
    """Moves along the path until the gap along the axis closes: (part, whether that is the answer)."""
    late = 1.0
    for _ in range(PUSHES):
        lay_on_path(scratch, body, late)
        choose_deepest_corners(scratch)
        late_gap = gap_along_axis(scratch)
        if late_gap > target + TOLERANCE:
            return NEVER, True
        if late_gap > target - TOLERANCE:
            return late, False
        lay_on_path(scratch, body, part)
        gap = gap_along_axis(scratch)
        if gap < target - TOLERANCE:
            return NEVER, True
        if gap <= target + TOLERANCE:
            return part, True
        late = closing_time(scratch, body, part, late, gap, late_gap, target)
    return late, False


def choose_deepest_corners(scratch: Any) -> None:
    """Notes the corner of each shape that reaches furthest to the other along the axis."""
    kind, face = scratch.axis_kind, scratch.axis_face
    if kind == CORNERS:
        scratch.axis_first = lowest_corner(scratch, FIRST, -scratch.axis_x, -scratch.axis_y)
        scratch.axis_second = lowest_corner(scratch, SECOND, scratch.axis_x, scratch.axis_y)
    elif kind == STATIC_FACE:
        scratch.axis_second = lowest_corner(scratch, SECOND, scratch.face_x[face], scratch.face_y[face])
    else:
        scratch.axis_first = lowest_corner(scratch, FIRST, scratch.face_x[face], scratch.face_y[face])


def gap_along_axis(scratch: Any) -> float:
    """The gap between the noted corners."""
    first, second = scratch.axis_first, scratch.axis_second
    if scratch.axis_kind == STATIC_FACE:
        return height_over_face(scratch, scratch.axis_face, second)
    if scratch.axis_kind == MOVING_FACE:
        return height_over_face(scratch, scratch.axis_face, first)
    dx = scratch.corner_x[second] - scratch.corner_x[first]
    dy = scratch.corner_y[second] - scratch.corner_y[first]
    return dx * scratch.axis_x + dy * scratch.axis_y


def closing_time(
    scratch: Any, body: int, early: float, late: float, early_gap: float, late_gap: float, target: float
) -> float:
    """The part of the path at which the gap is the target: halving and secant in turn."""
    part = late
    for k in range(ROOT_ROUNDS):
        part = early + (target - early_gap) * (late - early) / (late_gap - early_gap) if k % 2 else 0.5 * (early + late)
        lay_on_path(scratch, body, part)
        gap = gap_along_axis(scratch)
        if abs(gap - target) < TOLERANCE:
            return part
        if gap > target:
            early, early_gap = part, gap
        else:
            late, late_gap = part, gap
    return part
