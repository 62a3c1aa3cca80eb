"""Where two bodies touch: up to two points of one against a plane of the other, as Box2D finds them.

A contact is kept in the bodies' own coordinates, so that it can be looked at again after they have moved.
"""

import math
from typing import Any

from rookery.worlds.hockey.field import FRICTION, PUCK, PUCK_RADIUS, RESTITUTION, SKIN
from rookery.worlds.hockey.shapes import FIRST, SECOND, following, widest_gap
from rookery.worlds.hockey.state import CONTACTS

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
