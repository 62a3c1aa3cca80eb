"""Which bodies touch, with the cheap tests that come first: mostly nothing is near anything.

What is near is first gathered as the bits of a number, then looked at one by one. So threads of a GPU, which go in
step, all look at their first near thing at once, whichever it is.
"""

from typing import Any

import numpy as np

from rookery.worlds.hockey.collide import collide_polygons, collide_puck, nearest_plane
from rookery.worlds.hockey.field import (
    DYNAMIC,
    FREE_HIGH_X,
    FREE_HIGH_Y,
    FREE_LOW_X,
    FREE_LOW_Y,
    LEFT_GOAL,
    PUCK,
    PUCK_RADIUS,
    RACKET_REACH,
    RACKETS,
    REACH,
    SKIN,
    STATIC_HIGH_X,
    STATIC_HIGH_Y,
    STATIC_LOW_X,
    STATIC_LOW_Y,
    STATICS,
    WALLS,
)
from rookery.worlds.hockey.shapes import FIRST, SECOND, lay_racket, lay_static

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
