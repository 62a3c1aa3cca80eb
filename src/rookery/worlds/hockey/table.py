"""The table as it looks without players: ice, markings, rails and goals, painted once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.extras import load_pygame
from rookery.worlds.hockey.brush import (
    HEIGHT,
    WIDTH,
    Colour,
    Patch,
    Point,
    beside,
    mixed,
    sheer,
)
from rookery.worlds.hockey.field import (
    CENTRE_X,
    CENTRE_Y,
    FREE_HIGH_Y,
    FREE_LOW_Y,
    LEFT_GOAL,
    PIXELS,
    POST,
    RIGHT_GOAL,
    STATIC_HIGH_X,
    STATIC_HIGH_Y,
    STATIC_LOW_X,
    STATIC_LOW_Y,
    STATIC_POLYGONS,
    WALLS,
)
from rookery.worlds.hockey.forces import BACK, ZONE

TEAMS: tuple[Colour, Colour] = ((226, 84, 48), (38, 122, 214))
FLOOR: Colour = (22, 26, 36)
RAIL: Colour = (52, 62, 82)
RECESS: Colour = (15, 18, 26)
ICE: Colour = (243, 247, 251)
ICE_EDGE: Colour = (212, 222, 233)
MARKING: Colour = (148, 168, 194)
HOLES = 0.25  # between the holes the air comes from
NOTHING: Colour = (0, 0, 0, 0)
GOALS = (LEFT_GOAL, RIGHT_GOAL)
BEVEL = 0.07


def paint_table() -> Any:
    """A surface of the picture's size."""
    pygame = load_pygame()
    canvas = pygame.surfarray.make_surface(_ground().swapaxes(0, 1))
    for paint in (_paint_goals, _paint_markings, _paint_shadow, _paint_rails):
        paint(canvas)
    return canvas


def _ground() -> np.ndarray:
    """Floor, frame and ice: what varies softly, pixel by pixel."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    x, y = columns / PIXELS, (HEIGHT - rows) / PIXELS
    off_centre = np.clip(np.hypot((x - CENTRE_X) / 5.2, (y - CENTRE_Y) / 4.4), 0.0, 1.0)[..., None] ** 2
    ice = np.array(ICE) + off_centre * (np.array(ICE_EDGE) - np.array(ICE))
    away = np.clip((x - CENTRE_X) / 4.0, -1.0, 1.0)[..., None]  # each half is tinged with its team's colour
    for side, colour in zip((-1.0, 1.0), TEAMS, strict=True):
        ice += 0.05 * np.clip(side * away, 0.0, 1.0) * (np.array(colour) - ice)
    floor = np.array(FLOOR) * (1.25 - 0.45 * off_centre)
    low_x, high_x = STATIC_HIGH_X[LEFT_GOAL], STATIC_LOW_X[RIGHT_GOAL]
    on_ice = (x > low_x) & (x < high_x) & (y > FREE_LOW_Y) & (y < FREE_HIGH_Y)
    return np.where(on_ice[..., None], ice, floor).astype(np.uint8)


def _paint_goals(canvas: Any) -> None:
    goals = Patch()
    for goal, colour in zip(GOALS, TEAMS, strict=True):
        _paint_goal(goals, goal, colour)
    goals.lay_on(canvas)


def _paint_goal(patch: Patch, goal: int, colour: Colour) -> None:
    """A dark slot with a net, and a bright line where it begins."""
    outline = STATIC_POLYGONS[goal]
    left, right, bottom, top = STATIC_LOW_X[goal], STATIC_HIGH_X[goal], STATIC_LOW_Y[goal], STATIC_HIGH_Y[goal]
    patch.polygon(outline, mixed(RECESS, colour, 0.22))
    for k in range(1, 3):
        x = left + (right - left) * k / 3
        patch.line((x, bottom), (x, top), 0.02, mixed(RECESS, colour, 0.5))
    for k in range(1, 20):
        y = bottom + (top - bottom) * k / 20
        patch.line((left, y), (right, y), 0.02, mixed(RECESS, colour, 0.5))
    mouth = right if goal == LEFT_GOAL else left
    patch.line((mouth, bottom), (mouth, top), 0.09, colour)


def _paint_markings(canvas: Any) -> None:
    holes = Patch()
    for x in np.arange(CENTRE_X - 3.875, CENTRE_X + 4, HOLES):
        for y in np.arange(CENTRE_Y - 3.125, CENTRE_Y + 3.2, HOLES):
            holes.circle((float(x), float(y)), 0.018, sheer(MARKING, 0.55))
    holes.lay_on(canvas)
    for goal, side, colour in zip(GOALS, (-1.0, 1.0), TEAMS, strict=True):
        _paint_half(canvas, goal, side, colour)
    middle = Patch()
    middle.line((CENTRE_X, FREE_LOW_Y), (CENTRE_X, FREE_HIGH_Y), 0.06, MARKING)
    middle.circle((CENTRE_X, CENTRE_Y), 1.03, MARKING, 0.06)
    middle.circle((CENTRE_X, CENTRE_Y), 0.12, MARKING)
    middle.lay_on(canvas)


def _paint_half(canvas: Any, goal: int, side: float, colour: Colour) -> None:
    """A team's lines: how far it may come forward, how far back, and the crease before its goal."""
    half = Patch()
    mouth = STATIC_HIGH_X[goal] if side < 0 else STATIC_LOW_X[goal]
    start = -0.5 * math.pi if side < 0 else 0.5 * math.pi
    crease = [(mouth, CENTRE_Y)] + [
        (mouth + 1.25 * math.cos(start + math.pi * k / 48), CENTRE_Y + 1.25 * math.sin(start + math.pi * k / 48))
        for k in range(49)
    ]
    half.polygon(crease, sheer(colour, 0.13))
    half.arc((mouth, CENTRE_Y), 1.25, 0.045, start, start + math.pi, sheer(colour, 0.6))
    zone = CENTRE_X + side * ZONE
    for k in range(27):
        y = FREE_LOW_Y + 0.05 + 0.25 * k
        half.line((zone, y), (zone, min(y + 0.14, FREE_HIGH_Y)), 0.03, sheer(colour, 0.5))
    back = CENTRE_X + side * BACK
    half.line((back, FREE_LOW_Y), (back, FREE_HIGH_Y), 0.035, sheer(colour, 0.45))
    half.lay_on(canvas)


def _paint_shadow(canvas: Any) -> None:
    """The shadow of the rails, which lies on the ice only."""
    shadow = Patch()
    for corners in STATIC_POLYGONS[:WALLS]:
        shadow.polygon([(x + 0.05, y - 0.09) for x, y in corners], sheer((20, 30, 50), 0.5))
    shadow.blur(0.1)
    shadow.lay_on(canvas)


def _paint_rails(canvas: Any) -> None:
    """A rounded frame; towards the ice it ends where walls and posts end, in a slope."""
    rails = Patch()
    left, right = STATIC_LOW_X[LEFT_GOAL], STATIC_HIGH_X[RIGHT_GOAL]
    outline = _rounded(left, right, STATIC_LOW_Y[0], STATIC_HIGH_Y[1], 0.3)
    rails.polygon(outline, RAIL)
    rails.polygon(_box(STATIC_HIGH_X[LEFT_GOAL], STATIC_LOW_X[RIGHT_GOAL], FREE_LOW_Y, FREE_HIGH_Y), NOTHING)
    rails.polygon(_box(left, right, STATIC_LOW_Y[LEFT_GOAL], STATIC_HIGH_Y[LEFT_GOAL]), NOTHING)
    for corners in STATIC_POLYGONS[:WALLS]:
        rails.polygon(corners, RAIL)
    for edge in (*_rail_edges(), [*outline, outline[0]]):
        rails.slopes(edge, beside(edge, BEVEL), RAIL)
    rails.lay_on(canvas)


def _rail_edges() -> tuple[list[Point], list[Point]]:
    """The lower and the upper edge between rail and ice, from goal to goal, with the ice on the right."""
    back, tip = POST[2], POST[1]
    mouth = STATIC_HIGH_X[LEFT_GOAL]  # beyond it, a post stands in the goal
    cut = tip[1] + (back[1] - tip[1]) * (tip[0] - mouth) / (tip[0] - back[0])
    left = [(mouth, cut), tip, (tip[0], FREE_LOW_Y)]
    lower = [(2 * CENTRE_X - x, y) for x, y in left] + left[::-1]
    return lower, [(x, 2 * CENTRE_Y - y) for x, y in reversed(lower)]


def _box(left: float, right: float, bottom: float, top: float) -> list[Point]:
    return [(left, bottom), (right, bottom), (right, top), (left, top)]


def _rounded(left: float, right: float, bottom: float, top: float, radius: float) -> list[Point]:
    """A box with round corners."""
    middles = _box(left + radius, right - radius, bottom + radius, top - radius)
    return [
        (x + radius * math.cos(angle), y + radius * math.sin(angle))
        for quarter, (x, y) in enumerate(middles)
        for angle in ((quarter - 2 + k / 12) * 0.5 * math.pi for k in range(13))
    ]
