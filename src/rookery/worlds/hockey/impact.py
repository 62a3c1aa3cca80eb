"""When a moving body first meets something static.

Conservative advancement as in Box2D: the closest features of the two shapes give an axis that separates them; the
time at which the gap along it closes is looked for, and there the closest features are found again.

Nothing is laid out in memory here: a pose is enough to find any corner of a body, and stays in registers.
"""

import math
from typing import Any

from rookery.worlds.hockey.bodies import cos_sin
from rookery.worlds.hockey.field import (
    BODY_NORMAL_X,
    BODY_NORMAL_Y,
    BODY_X,
    BODY_Y,
    PUCK,
    RACKET_CORNERS,
    RADIUS,
    SKIN,
    SLOP,
    STATIC_CORNERS,
    STATIC_NORMAL_X,
    STATIC_NORMAL_Y,
    STATIC_X,
    STATIC_Y,
)

NEVER = 2.0
TOLERANCE = 0.25 * SLOP
ADVANCES = 20
PUSHES = 8
ROOT_ROUNDS = 50

# Where a body's centre of mass is, and how it is turned: x, y, cosine, sine.
Pose = tuple[float, float, float, float]
# What separates two shapes: a line through (x, y) that stands still, which a corner of the body comes near; or a face
# of the body, named by its first corner, which comes near (x, y). The normal of a body's own face turns with it.
# (whether it is the body's own, corner, x, y, normal x, normal y)
Axis = tuple[bool, int, float, float, float, float]


def time_of_impact(scratch: Any, body: int, static: int) -> float:
    """The part of its path after which a body meets a static polygon; NEVER if it does not."""
    target = max(SLOP, RADIUS[body] + SKIN - 3.0 * SLOP)  # they meet with a little overlap, to touch for certain
    part = 0.0
    for _ in range(ADVANCES):
        distance, axis = find_axis(body, static, pose_at(scratch, body, part))
        if distance <= 0.0:
            return NEVER
        if distance < target + TOLERANCE:
            return part
        part, final = advance_along(scratch, body, static, axis, part, target)
        if final:
            return part
    return NEVER


def pose_at(scratch: Any, body: int, part: float) -> Pose:
    """How a body stands after a part of its path."""
    x = scratch.start_x[body] + part * (scratch.x[body] - scratch.start_x[body])
    y = scratch.start_y[body] + part * (scratch.y[body] - scratch.start_y[body])
    if body == PUCK:
        return x, y, 1.0, 0.0
    angle = scratch.start_angle[body] + part * (scratch.angle[body] - scratch.start_angle[body])
    cos, sin = cos_sin(angle)
    return x, y, cos, sin


def corner_at(body: int, corner: int, pose: Pose) -> tuple[float, float]:
    x, y, cos, sin = pose
    own_x, own_y = BODY_X[body * RACKET_CORNERS + corner], BODY_Y[body * RACKET_CORNERS + corner]
    return x + cos * own_x - sin * own_y, y + sin * own_x + cos * own_y


def lowest_corner(body: int, pose: Pose, nx: float, ny: float) -> tuple[float, int]:
    """(height, corner) of a body's corner that lies furthest against a direction."""
    x, y, cos, sin = pose
    own_x, own_y = cos * nx + sin * ny, cos * ny - sin * nx
    least, lowest = math.inf, 0
    for corner in range(RACKET_CORNERS):
        height = BODY_X[body * RACKET_CORNERS + corner] * own_x + BODY_Y[body * RACKET_CORNERS + corner] * own_y
        if height < least:
            least, lowest = height, corner
    return least + x * nx + y * ny, lowest


def lowest_static(static: int, nx: float, ny: float) -> tuple[float, int]:
    """The same of a static polygon; corners are numbered through all of them."""
    least, lowest = math.inf, 0
    for corner in range(static * STATIC_CORNERS, (static + 1) * STATIC_CORNERS):
        height = STATIC_X[corner] * nx + STATIC_Y[corner] * ny
        if height < least:
            least, lowest = height, corner
    return least, lowest


def find_axis(body: int, static: int, pose: Pose) -> tuple[float, Axis]:
    """(distance, axis) between the closest features of the two shapes; the distance is 0 if they overlap."""
    gap, face, corner = widest_gap_to_static(body, static, pose)
    ax, ay = STATIC_X[face], STATIC_Y[face]
    axis = False, corner, ax, ay, STATIC_NORMAL_X[face], STATIC_NORMAL_Y[face]
    if gap > 0.0:
        after = face + 1 if face + 1 < (static + 1) * STATIC_CORNERS else static * STATIC_CORNERS
        x, y = corner_at(body, corner, pose)
        if is_between(x, y, ax, ay, STATIC_X[after], STATIC_Y[after]):
            return gap, axis
    if body != PUCK:
        own_gap, own_face, corner = widest_gap_to_body(body, static, pose)
        x, y, own = STATIC_X[corner], STATIC_Y[corner], body * RACKET_CORNERS + own_face
        if own_gap > 0.0:
            ax, ay = corner_at(body, own_face, pose)
            bx, by = corner_at(body, own_face + 1 if own_face + 1 < RACKET_CORNERS else 0, pose)
            if is_between(x, y, ax, ay, bx, by):
                return own_gap, (True, own_face, x, y, BODY_NORMAL_X[own], BODY_NORMAL_Y[own])
        gap = max(gap, own_gap)
    return (0.0, axis) if gap <= 0.0 else find_axis_of_corners(body, static, pose)


def widest_gap_to_static(body: int, static: int, pose: Pose) -> tuple[float, int, int]:
    """The face of a static polygon that best separates it from a body: (gap, face, the body's nearest corner)."""
    gap, best, nearest = -math.inf, 0, 0
    for face in range(static * STATIC_CORNERS, (static + 1) * STATIC_CORNERS):
        nx, ny = STATIC_NORMAL_X[face], STATIC_NORMAL_Y[face]
        height, corner = lowest_corner(body, pose, nx, ny)
        height -= STATIC_X[face] * nx + STATIC_Y[face] * ny
        if height > gap:
            gap, best, nearest = height, face, corner
    return gap, best, nearest


def widest_gap_to_body(body: int, static: int, pose: Pose) -> tuple[float, int, int]:
    """The face of a body that best separates it from a static polygon: (gap, face, the polygon's nearest corner)."""
    x, y, cos, sin = pose
    gap, best, nearest = -math.inf, 0, 0
    for face in range(RACKET_CORNERS):
        own = body * RACKET_CORNERS + face
        own_nx, own_ny = BODY_NORMAL_X[own], BODY_NORMAL_Y[own]
        nx, ny = cos * own_nx - sin * own_ny, sin * own_nx + cos * own_ny
        height, corner = lowest_static(static, nx, ny)
        height -= x * nx + y * ny + BODY_X[own] * own_nx + BODY_Y[own] * own_ny
        if height > gap:
            gap, best, nearest = height, face, corner
    return gap, best, nearest


def is_between(x: float, y: float, ax: float, ay: float, bx: float, by: float) -> bool:
    """Whether a point lies straight in front of (or behind) what is between a and b."""
    return (x - ax) * (bx - ax) + (y - ay) * (by - ay) > 0.0 and (x - bx) * (ax - bx) + (y - by) * (ay - by) > 0.0


def find_axis_of_corners(body: int, static: int, pose: Pose) -> tuple[float, Axis]:
    """The axis through the two corners nearest to each other, and their distance."""
    least, nx, ny = math.inf, 0.0, 0.0
    for corner in range(RACKET_CORNERS):
        x, y = corner_at(body, corner, pose)
        for other in range(static * STATIC_CORNERS, (static + 1) * STATIC_CORNERS):
            dx, dy = x - STATIC_X[other], y - STATIC_Y[other]
            if dx * dx + dy * dy < least:
                least, nx, ny = dx * dx + dy * dy, dx, dy
    distance = math.sqrt(least)
    nx, ny = nx / distance, ny / distance
    _, furthest = lowest_static(static, -nx, -ny)
    return distance, (False, 0, STATIC_X[furthest], STATIC_Y[furthest], nx, ny)


def advance_along(scratch: Any, body: int, static: int, axis: Axis, part: float, target: float) -> tuple[float, bool]:
    """Moves along the path until the gap along the axis closes: (part, whether that is the answer)."""
    late = 1.0
    for _ in range(PUSHES):
        pose = pose_at(scratch, body, late)
        axis = with_deepest(body, static, axis, pose)
        late_gap = gap_along(body, axis, pose)
        if late_gap > target + TOLERANCE:
            return NEVER, True
        if late_gap > target - TOLERANCE:
            return late, False
        gap = gap_along(body, axis, pose_at(scratch, body, part))
        if gap < target - TOLERANCE:
            return NEVER, True
        if gap <= target + TOLERANCE:
            return part, True
        late = closing_time(scratch, body, axis, part, late, gap, late_gap, target)
    return late, False


def with_deepest(body: int, static: int, axis: Axis, pose: Pose) -> Axis:
    """The axis with what reaches furthest to its other side: a corner of the body, or a point of the static polygon."""
    own, corner, x, y, nx, ny = axis
    if own:
        _, _, cos, sin = pose
        _, deepest = lowest_static(static, cos * nx - sin * ny, sin * nx + cos * ny)
        return own, corner, STATIC_X[deepest], STATIC_Y[deepest], nx, ny
    _, corner = lowest_corner(body, pose, nx, ny)
    return own, corner, x, y, nx, ny


def gap_along(body: int, axis: Axis, pose: Pose) -> float:
    """How far the corner is from the line, or the point from the face."""
    own, corner, x, y, nx, ny = axis
    corner_x, corner_y = corner_at(body, corner, pose)
    if not own:
        return (corner_x - x) * nx + (corner_y - y) * ny
    _, _, cos, sin = pose
    return (x - corner_x) * (cos * nx - sin * ny) + (y - corner_y) * (sin * nx + cos * ny)


def closing_time(
    scratch: Any, body: int, axis: Axis, early: float, late: float, early_gap: float, late_gap: float, target: float
) -> float:
    """The part of the path at which the gap is the target: halving and secant in turn."""
    part = late
    for k in range(ROOT_ROUNDS):
        part = early + (target - early_gap) * (late - early) / (late_gap - early_gap) if k % 2 else 0.5 * (early + late)
        gap = gap_along(body, axis, pose_at(scratch, body, part))
        if abs(gap - target) < TOLERANCE:
            return part
        if gap > target:
            early, early_gap = part, gap
        else:
            late, late_gap = part, gap
    return part
