"""What moves on the table, as it looks: rackets, the puck and its trail, and the glow of a goal."""

from __future__ import annotations

import math
from typing import Any

from rookery.worlds.hockey.brush import Colour, Patch, Point, mixed, sheer, turned
from rookery.worlds.hockey.field import (
    FREE_HIGH_Y,
    FREE_LOW_Y,
    LEFT_GOAL,
    PIXELS,
    PUCK,
    PUCK_RADIUS,
    RACKET_POLYGONS,
    RIGHT_GOAL,
    STATIC_HIGH_X,
    STATIC_HIGH_Y,
    STATIC_LOW_X,
    STATIC_LOW_Y,
)
from rookery.worlds.hockey.rules import KEPT
from rookery.worlds.hockey.table import TEAMS

WHITE: Colour = (255, 255, 255)
BLACK: Colour = (0, 0, 0)
SHADOW: Colour = (16, 26, 46)
PUCK_COLOUR: Colour = (28, 32, 42)
TRAIL_COLOUR: Colour = (70, 90, 130)
BEVEL = 0.06
RACKET_ROOM = 0.62  # around a racket's origin, for it and its shadow
KNOB = 10.0 / PIXELS
KNOB_BEHIND = 9.0 / PIXELS  # the racket's origin
TRAIL_SECONDS = 0.07
LONGEST_TRAIL = 2.2
TRAIL_PIECES = 32


def paint_racket(canvas: Any, player: int, x: float, y: float, angle: float) -> None:
    """A racket with bevelled edges and a knob to hold it by."""
    low, high = (x - RACKET_ROOM, y - RACKET_ROOM), (x + RACKET_ROOM, y + RACKET_ROOM)
    colour = TEAMS[player]
    outline = turned(RACKET_POLYGONS[player], angle, x, y)
    shadow = Patch(low, high, fine=1)
    shadow.polygon([(a + 0.04, b - 0.07) for a, b in outline], sheer(SHADOW, 0.42))
    shadow.blur(0.07)
    shadow.lay_on(canvas)
    body = Patch(low, high)
    body.bevelled(outline, BEVEL, colour)
    _paint_knob(body, player, x, y, angle, colour)
    body.lay_on(canvas)


def _paint_knob(body: Patch, player: int, x: float, y: float, angle: float, colour: Colour) -> None:
    behind = -KNOB_BEHIND if player == 0 else KNOB_BEHIND
    ((cx, cy),) = turned([(behind, 0.0)], angle, x, y)
    body.circle((cx + 0.015, cy - 0.025), KNOB, mixed(colour, BLACK, 0.3))
    body.circle((cx, cy), KNOB, mixed(colour, WHITE, 0.16))
    body.circle((cx - 0.015, cy + 0.025), 0.7 * KNOB, mixed(colour, WHITE, 0.34))


def paint_puck(canvas: Any, state: Any) -> None:
    """The puck; around a puck that is kept, a ring that shortens with the time left."""
    x, y = state.x[PUCK], state.y[PUCK]
    room = PUCK_RADIUS + 0.24
    shadow = Patch((x - room, y - room), (x + room, y + room), fine=1)
    shadow.circle((x + 0.03, y - 0.05), PUCK_RADIUS, sheer(SHADOW, 0.5))
    shadow.blur(0.06)
    shadow.lay_on(canvas)
    puck = Patch((x - room, y - room), (x + room, y + room))
    puck.circle((x, y), PUCK_RADIUS, PUCK_COLOUR)
    puck.circle((x - 0.008, y + 0.012), 0.86 * PUCK_RADIUS, mixed(PUCK_COLOUR, WHITE, 0.26))
    puck.circle((x, y), 0.78 * PUCK_RADIUS, mixed(PUCK_COLOUR, WHITE, 0.08))
    for player in range(2):
        if state.hold[player] > 0:
            share = min(1.0, state.hold[player] / KEPT)
            top = 0.5 * math.pi
            puck.arc((x, y), PUCK_RADIUS + 0.11, 0.07, top, top + 2.0 * math.pi, sheer(TEAMS[player], 0.25))
            puck.arc((x, y), PUCK_RADIUS + 0.11, 0.07, top, top - 2.0 * math.pi * share, TEAMS[player])
    puck.lay_on(canvas)


def paint_trail(canvas: Any, state: Any) -> None:
    """Where the puck comes from, by its velocity: the faster, the longer. It fades, and ends at the rails."""
    x, y, vx, vy = state.x[PUCK], state.y[PUCK], state.vx[PUCK], state.vy[PUCK]
    speed = math.hypot(vx, vy)
    length = min(LONGEST_TRAIL, TRAIL_SECONDS * speed)
    if length < 0.5 * PUCK_RADIUS:
        return
    forward = (vx / speed, vy / speed)
    tail = (x - forward[0] * length, y - forward[1] * length)
    low = (max(STATIC_HIGH_X[2], min(x, tail[0]) - PUCK_RADIUS), max(FREE_LOW_Y, min(y, tail[1]) - PUCK_RADIUS))
    high = (min(STATIC_LOW_X[3], max(x, tail[0]) + PUCK_RADIUS), min(FREE_HIGH_Y, max(y, tail[1]) + PUCK_RADIUS))
    if low[0] < high[0] and low[1] < high[1]:
        trail = Patch(low, high, fine=2)
        for k in range(TRAIL_PIECES):
            _paint_piece(trail, (x, y), forward, length, k / TRAIL_PIECES, (k + 1) / TRAIL_PIECES)
        trail.lay_on(canvas)


def _paint_piece(patch: Patch, head: Point, forward: Point, length: float, near: float, far: float) -> None:
    """The part of a trail between two shares of its length; it narrows and fades towards its end."""
    corners = []
    for share, side in ((near, 1.0), (far, 1.0), (far, -1.0), (near, -1.0)):
        along, across = -share * length, side * PUCK_RADIUS * 0.92 * (1.0 - 0.75 * share)
        dx, dy = forward[0] * along - forward[1] * across, forward[1] * along + forward[0] * across
        corners.append((head[0] + dx, head[1] + dy))
    patch.polygon(corners, sheer(TRAIL_COLOUR, 0.5 * (1.0 - near) ** 1.4))


def paint_glow(canvas: Any, winner: int) -> None:
    """Light in the goal that was hit, in the colour of who hit it."""
    goal = RIGHT_GOAL if winner > 0 else LEFT_GOAL
    left, right = STATIC_LOW_X[goal], STATIC_HIGH_X[goal]
    glow = Patch((left - 1.2, STATIC_LOW_Y[goal] - 1.2), (right + 1.2, STATIC_HIGH_Y[goal] + 1.2), fine=1)
    bottom, top = STATIC_LOW_Y[goal] + 0.15, STATIC_HIGH_Y[goal] - 0.15
    glow.polygon([(left, bottom), (right, bottom), (right, top), (left, top)], TEAMS[0 if winner > 0 else 1])
    glow.blur(0.5)
    glow.lay_on(canvas)
