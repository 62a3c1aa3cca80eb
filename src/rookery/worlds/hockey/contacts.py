"""Which bodies touch, with the cheap tests that come first: mostly nothing is near anything.

Near bodies are first gathered as the bits of a number, then looked at one by one. So threads of a GPU, which go in
step, all look at their first near thing at once, whichever it is.

Two bodies touch at up to two points of one against a plane of the other, as Box2D finds them. A contact is kept in the
bodies' own coordinates, so that it can be looked at again after they have moved.
"""

import math
from typing import Any

import numpy as np

from rookery.worlds.hockey.field import (
    CONTACTS,
    DYNAMIC,
    FREE_HIGH_X,
    FREE_HIGH_Y,
    FREE_LOW_X,
    FREE_LOW_Y,
    FRICTION,
    GROUND,
    LEFT_GOAL,
    PUCK,
    PUCK_RADIUS,
    RACKET_CORNERS,
    RACKET_NORMAL_X,
    RACKET_NORMAL_Y,
    RACKET_REACH,
    RACKET_X,
    RACKET_Y,
    RACKETS,
    REACH,
    RESTITUTION,
    SKIN,
    STATIC_CORNERS,
    STATIC_HIGH_X,
    STATIC_HIGH_Y,
    STATIC_LOW_X,
    STATIC_LOW_Y,
    STATIC_NORMAL_X,
    STATIC_NORMAL_Y,
    STATIC_X,
    STATIC_Y,
    STATICS,
    WALLS,
)

MARGIN = 2.0 * SKIN
PUCK_NEAR = RACKET_REACH + PUCK_RADIUS + MARGIN
RACKET_NEAR = 2.0 * RACKET_REACH + MARGIN
GOAL_NEAR = PUCK_RADIUS + MARGIN
PUCK_STATICS = (1 << WALLS) - 1
LOWEST_BIT = np.array([(bits & -bits).bit_length() - 1 for bits in range(1 << STATICS)])


def find_contacts(scratch: Any) -> None:
    """Lists all contacts of bodies as they stand, and notes which rackets the puck touches."""
    scratch.contacts = 0
    bodies = 0
    for body in range(DYNAMIC):
        x, y, reach = scratch.x[body], scratch.y[body], REACH[body] + MARGIN
        if not is_free(x - reach, x + reach, y - reach, y + reach):
            bodies |= 1 << body
    while bodies != 0:
        find_static_contacts(scratch, LOWEST_BIT[bodies])
        bodies &= bodies - 1
    find_racket_contact(scratch)
    find_touched_rackets(scratch)
    if scratch.contacts > 0:
        join_islands(scratch)


def find_touched_rackets(scratch: Any) -> None:
    """Notes which rackets the puck touches, and adds these contacts."""
    rackets = 0
    for racket in range(RACKETS):
        scratch.touching[racket] = 0
        dx, dy = scratch.x[PUCK] - scratch.x[racket], scratch.y[PUCK] - scratch.y[racket]
        if dx * dx + dy * dy <= PUCK_NEAR * PUCK_NEAR:
            rackets |= 1 << racket
    while rackets != 0:
        racket = LOWEST_BIT[rackets]
        rackets &= rackets - 1
        lay_body(scratch, FIRST, racket)
        scratch.touching[racket] = 1 if collide_puck(scratch) else 0


def find_racket_contact(scratch: Any) -> None:
    """Adds the contact of the two rackets."""
    dx, dy = scratch.x[1] - scratch.x[0], scratch.y[1] - scratch.y[0]
    if dx * dx + dy * dy <= RACKET_NEAR * RACKET_NEAR:
        lay_body(scratch, FIRST, 0)
        lay_body(scratch, SECOND, 1)
        collide_polygons(scratch)


def find_static_contacts(scratch: Any, body: int) -> None:
    """Adds the contacts of a body with walls, posts and, for a racket, goals."""
    x, y, reach = scratch.x[body], scratch.y[body], REACH[body] + MARGIN
    near = near_statics(body, x - reach, x + reach, y - reach, y + reach)
    if near != 0 and body != PUCK:
        lay_body(scratch, SECOND, body)
    while near != 0:
        lay_static(scratch, FIRST, LOWEST_BIT[near])
        near &= near - 1
        if body == PUCK:
            collide_puck(scratch)
        else:
            collide_polygons(scratch)


def near_statics(body: int, low_x: float, high_x: float, low_y: float, high_y: float) -> int:
    """A bit for each static polygon that a body within a rectangle may meet. (Goals do not stop the puck.)"""
    near = 0
    for static in range(STATICS):
        if is_near(static, low_x, high_x, low_y, high_y):
            near |= 1 << static
    return near & PUCK_STATICS if body == PUCK else near


def lay_body(scratch: Any, slot: int, racket: int) -> None:
    """Puts a racket, as it stands, into a slot."""
    lay_racket(scratch, slot, racket, scratch.x[racket], scratch.y[racket], scratch.cos[racket], scratch.sin[racket])


def is_free(low_x: float, high_x: float, low_y: float, high_y: float) -> bool:
    """Whether a rectangle is clear of everything static."""
    return low_x > FREE_LOW_X and high_x < FREE_HIGH_X and low_y > FREE_LOW_Y and high_y < FREE_HIGH_Y


def is_near(static: int, low_x: float, high_x: float, low_y: float, high_y: float) -> bool:
    """Whether a rectangle overlaps that of a static polygon."""
    across = low_x < STATIC_HIGH_X[static] and high_x > STATIC_LOW_X[static]
    return across and low_y < STATIC_HIGH_Y[static] and high_y > STATIC_LOW_Y[static]


def goal_reached(scratch: Any) -> int:
    """1 if the puck touches player 2's goal, -1 if player 1's, else 0."""
    x, y = scratch.x[PUCK], scratch.y[PUCK]
    for goal in range(LEFT_GOAL, STATICS):
        if is_near(goal, x - GOAL_NEAR, x + GOAL_NEAR, y - GOAL_NEAR, y + GOAL_NEAR):
            lay_static(scratch, FIRST, goal)
            touching, _, _, _, _ = nearest_plane(scratch, x, y)
            if touching:
                return -1 if goal == LEFT_GOAL else 1
    return 0


def join_islands(scratch: Any) -> None:
    """Gives bodies that touch each other the same island."""
    for body in range(DYNAMIC):
        scratch.island[body] = body
    for contact in range(scratch.contacts):
        a, b = scratch.plane_body[contact], scratch.point_body[contact]
        if a < DYNAMIC and b < DYNAMIC:
            merge(scratch, scratch.island[a], scratch.island[b])


def merge(scratch: Any, one: int, two: int) -> None:
    """Makes one island of two."""
    for body in range(DYNAMIC):
        if scratch.island[body] == two:
            scratch.island[body] = one


# --- where two bodies touch -------------------------------------------------------------------------------------------

PUCK_DISTANCE = PUCK_RADIUS + SKIN
POLYGON_DISTANCE = 2.0 * SKIN
# How much better the second polygon must separate to provide the plane: keeps it on one body while faces are parallel.
PREFER_SHARE = 0.98
PREFER_MARGIN = 0.001


def open_contact(scratch: Any, plane_body: int, point_body: int, x: float, y: float, nx: float, ny: float) -> int:
    """Begins a contact with the plane through (x, y); returns its number."""
    contact = scratch.contacts
    scratch.plane_body[contact] = plane_body
    scratch.point_body[contact] = point_body
    scratch.points[contact] = 0
    cos, sin = scratch.cos[plane_body], scratch.sin[plane_body]
    dx, dy = x - scratch.x[plane_body], y - scratch.y[plane_body]
    scratch.plane_x[contact] = cos * dx + sin * dy
    scratch.plane_y[contact] = cos * dy - sin * dx
    scratch.plane_normal_x[contact] = cos * nx + sin * ny
    scratch.plane_normal_y[contact] = cos * ny - sin * nx
    scratch.friction[contact] = math.sqrt(FRICTION[plane_body] * FRICTION[point_body])
    scratch.restitution[contact] = max(RESTITUTION[plane_body], RESTITUTION[point_body])
    return contact


def add_point(scratch: Any, contact: int, x: float, y: float) -> None:
    """Adds the point (x, y) to a contact."""
    body = scratch.point_body[contact]
    cos, sin = scratch.cos[body], scratch.sin[body]
    dx, dy = x - scratch.x[body], y - scratch.y[body]
    point = 2 * contact + scratch.points[contact]
    scratch.point_x[point] = cos * dx + sin * dy
    scratch.point_y[point] = cos * dy - sin * dx
    scratch.points[contact] += 1


def collide_puck(scratch: Any) -> bool:
    """Puck against the polygon in the first slot. Adds a contact and returns True if they touch."""
    x, y = scratch.x[PUCK], scratch.y[PUCK]
    touch, plane_x, plane_y, nx, ny = nearest_plane(scratch, x, y)
    if touch and scratch.contacts < CONTACTS:
        contact = open_contact(scratch, scratch.owner[0], PUCK, plane_x, plane_y, nx, ny)
        add_point(scratch, contact, x, y)
        scratch.contacts += 1
    return touch


def nearest_plane(scratch: Any, x: float, y: float) -> tuple[bool, float, float, float, float]:
    """The plane with which the polygon in the first slot meets a puck at (x, y): (touching, point, normal)."""
    gap, face = -math.inf, FIRST
    for k in range(FIRST, FIRST + scratch.corners[0]):
        height = (x - scratch.corner_x[k]) * scratch.face_x[k] + (y - scratch.corner_y[k]) * scratch.face_y[k]
        if height > gap:
            gap, face = height, k
    after = following(scratch, FIRST, face)
    ax, ay = scratch.corner_x[face], scratch.corner_y[face]
    bx, by = scratch.corner_x[after], scratch.corner_y[after]
    if gap > 0.0:
        if (x - ax) * (bx - ax) + (y - ay) * (by - ay) <= 0.0:
            return plane_at_corner(x, y, ax, ay)
        if (x - bx) * (ax - bx) + (y - by) * (ay - by) <= 0.0:
            return plane_at_corner(x, y, bx, by)
    return gap <= PUCK_DISTANCE, ax, ay, scratch.face_x[face], scratch.face_y[face]


def plane_at_corner(x: float, y: float, corner_x: float, corner_y: float) -> tuple[bool, float, float, float, float]:
    """A corner meets the puck with a plane that faces the puck's centre."""
    dx, dy = x - corner_x, y - corner_y
    distance = math.sqrt(dx * dx + dy * dy)
    if distance > PUCK_DISTANCE:
        return False, corner_x, corner_y, 0.0, 0.0
    return True, corner_x, corner_y, dx / distance, dy / distance


def collide_polygons(scratch: Any) -> None:
    """Adds a contact between the polygons in the two slots if they touch."""
    first_gap, first_face = widest_gap(scratch, FIRST, SECOND)
    if first_gap > POLYGON_DISTANCE or scratch.contacts == CONTACTS:
        return
    second_gap, second_face = widest_gap(scratch, SECOND, FIRST)
    if second_gap > POLYGON_DISTANCE:
        return
    if second_gap > PREFER_SHARE * first_gap + PREFER_MARGIN:
        collide_face(scratch, second_face, SECOND, FIRST)
    else:
        collide_face(scratch, first_face, FIRST, SECOND)


def collide_face(scratch: Any, face: int, slot: int, other: int) -> None:
    """Adds the contact of one polygon's face with the face of the other that looks at it."""
    take_opposite_face(scratch, face, other)
    after = following(scratch, slot, face)
    nx, ny = scratch.face_x[face], scratch.face_y[face]
    if not clip(scratch, ny, -nx, scratch.corner_x[face], scratch.corner_y[face]):
        return
    if not clip(scratch, -ny, nx, scratch.corner_x[after], scratch.corner_y[after]):
        return
    x, y = scratch.corner_x[face], scratch.corner_y[face]
    contact = open_contact(scratch, scratch.owner[slot // SECOND], scratch.owner[other // SECOND], x, y, nx, ny)
    for k in range(2):
        if (scratch.clip_x[k] - x) * nx + (scratch.clip_y[k] - y) * ny <= POLYGON_DISTANCE:
            add_point(scratch, contact, scratch.clip_x[k], scratch.clip_y[k])
    if scratch.points[contact] > 0:
        scratch.contacts += 1


def take_opposite_face(scratch: Any, face: int, other: int) -> None:
    """Copies the face of the other polygon that looks most against this face, as a segment to be clipped."""
    opposite, least = other, math.inf
    for k in range(other, other + scratch.corners[other // SECOND]):
        facing = scratch.face_x[face] * scratch.face_x[k] + scratch.face_y[face] * scratch.face_y[k]
        if facing < least:
            opposite, least = k, facing
    after = following(scratch, other, opposite)
    scratch.clip_x[0], scratch.clip_y[0] = scratch.corner_x[opposite], scratch.corner_y[opposite]
    scratch.clip_x[1], scratch.clip_y[1] = scratch.corner_x[after], scratch.corner_y[after]


def clip(scratch: Any, out_x: float, out_y: float, x: float, y: float) -> bool:
    """Cuts from the segment what lies beyond a side of the face; False if nothing is left."""
    first = (scratch.clip_x[0] - x) * out_x + (scratch.clip_y[0] - y) * out_y - POLYGON_DISTANCE
    second = (scratch.clip_x[1] - x) * out_x + (scratch.clip_y[1] - y) * out_y - POLYGON_DISTANCE
    if first > 0.0 and second > 0.0:
        return False
    if first * second < 0.0:
        share = first / (first - second)
        cut_x = scratch.clip_x[0] + share * (scratch.clip_x[1] - scratch.clip_x[0])
        cut_y = scratch.clip_y[0] + share * (scratch.clip_y[1] - scratch.clip_y[0])
        end = 0 if first > 0.0 else 1
        scratch.clip_x[end], scratch.clip_y[end] = cut_x, cut_y
    return True


# --- two polygons side by side in the scratch memory, each in one of two slots of seven corners -----------------------

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
