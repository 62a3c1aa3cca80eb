"""The table as it looks without players: ice, markings, rails and goals, painted once; and what it is painted with.

Shapes are drawn several times as large as they appear and scaled down, which smooths their edges. Colours that let
something through are kept multiplied by how much they hide, so that scaling mixes them rightly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rookery.extras import load_pygame
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
from rookery.worlds.hockey.free import BACK, ZONE

WIDTH, HEIGHT = 600, 480
SMOOTH = 4
LIGHT = (-0.45, 0.89)  # where the light comes from

Point = tuple[float, float]
Colour = tuple[int, ...]


def pixel(point: Point) -> Point:
    """Where a point of the table is in the picture, whose y axis points down."""
    return PIXELS * point[0], HEIGHT - PIXELS * point[1]


def sheer(colour: Colour, share: float) -> Colour:
    """The colour, hiding only a share of what is behind it."""
    return *(round(part * share) for part in colour), round(255 * share)


def mixed(colour: Colour, other: Colour, share: float) -> Colour:
    """The colour with a share of another.

    >>> mixed((0, 0, 0), (100, 200, 40), 0.5)
    (50, 100, 20)
    """
    return tuple(round(a + share * (b - a)) for a, b in zip(colour, other, strict=True))


def shaded(colour: Colour, normal: Point) -> Colour:
    """The colour of a slope that faces along `normal`: lighter towards the light."""
    facing = normal[0] * LIGHT[0] + normal[1] * LIGHT[1]
    return mixed(colour, (255, 255, 255), 0.38 * facing) if facing > 0 else mixed(colour, (0, 0, 0), -0.34 * facing)


def turned(corners: Iterable[Point], angle: float, x: float, y: float) -> list[Point]:
    """Corners around an origin that is at (x, y), turned by an angle."""
    cos, sin = math.cos(angle), math.sin(angle)
    return [(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in corners]


def inset(corners: Sequence[Point], width: float) -> list[Point]:
    """A convex polygon, given counterclockwise, with every side moved inwards.

    >>> inset([(0, 0), (4, 0), (4, 4), (0, 4)], 1)
    [(1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (1.0, 3.0)]
    """
    return _moved_left([corners[-1], *corners, corners[0]], width)


def beside(path: Sequence[Point], width: float) -> list[Point]:
    """A path moved to its left.

    >>> beside([(0, 0), (4, 0), (4, 4)], 1)
    [(0.0, 1.0), (3.0, 1.0), (3.0, 4.0)]
    """
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = *path[:2], *path[-2:]
    return _moved_left([(2 * ax - bx, 2 * ay - by), *path, (2 * dx - cx, 2 * dy - cy)], width)


def _moved_left(path: Sequence[Point], width: float) -> list[Point]:
    """What lies beside a path, but for its ends."""
    return [_mitre(a, b, c, width) for a, b, c in zip(path, path[1:], path[2:], strict=False)]


def _mitre(a: Point, b: Point, c: Point, width: float) -> Point:
    """Where the sides a-b and b-c meet once both have moved to their left."""
    (nx, ny), (mx, my) = outward(a, b), outward(b, c)
    reach = width / (1.0 + nx * mx + ny * my)
    return b[0] - reach * (nx + mx), b[1] - reach * (ny + my)


def outward(a: Point, b: Point) -> Point:
    """The unit normal to the right of the way from a to b."""
    length = math.hypot(b[0] - a[0], b[1] - a[1])
    return (b[1] - a[1]) / length, (a[0] - b[0]) / length


class Patch:
    """A piece of the picture to paint on, `fine` times as large as it will appear; points are the table's."""

    def __init__(
        self, low: Point = (0.0, 0.0), high: Point = (WIDTH / PIXELS, HEIGHT / PIXELS), fine: int = SMOOTH
    ) -> None:
        self._pygame, self._fine = load_pygame(), fine
        (left, bottom), (right, top) = pixel(low), pixel(high)
        self.left, self.top = math.floor(left), math.floor(top)
        self.size = max(1, math.ceil(right) - self.left), max(1, math.ceil(bottom) - self.top)
        large = (fine * self.size[0], fine * self.size[1])
        self._large = self._pygame.Surface(large, self._pygame.SRCALPHA)

    def polygon(self, corners: Iterable[Point], colour: Colour) -> None:
        self._pygame.draw.polygon(self._large, colour, [self._place(corner) for corner in corners])

    def circle(self, centre: Point, radius: float, colour: Colour, thickness: float = 0.0) -> None:
        """A disc, or a ring that is `thickness` wide, inwards from the radius."""
        wide = math.ceil(self._fine * PIXELS * thickness)
        self._pygame.draw.circle(self._large, colour, self._place(centre), self._fine * PIXELS * radius, wide)

    def line(self, start: Point, end: Point, width: float, colour: Colour) -> None:
        nx, ny = outward(start, end)
        dx, dy = 0.5 * width * nx, 0.5 * width * ny
        (ax, ay), (bx, by) = start, end
        self.polygon([(ax + dx, ay + dy), (bx + dx, by + dy), (bx - dx, by - dy), (ax - dx, ay - dy)], colour)

    def arc(self, centre: Point, radius: float, width: float, start: float, end: float, colour: Colour) -> None:
        """A part of a ring between two angles, `width` wide around the radius."""
        pieces = max(2, math.ceil(abs(end - start) * 16))
        angles = [start + (end - start) * k / pieces for k in range(pieces + 1)]
        outer, inner = radius + 0.5 * width, radius - 0.5 * width
        there = [(centre[0] + outer * math.cos(a), centre[1] + outer * math.sin(a)) for a in angles]
        back = [(centre[0] + inner * math.cos(a), centre[1] + inner * math.sin(a)) for a in reversed(angles)]
        self.polygon(there + back, colour)

    def bevelled(self, corners: Sequence[Point], width: float, colour: Colour) -> None:
        """A convex polygon whose edges are slopes."""
        inner = inset(corners, width)
        self.slopes([*corners, corners[0]], [*inner, inner[0]], colour)
        self.polygon(inner, colour)

    def slopes(self, edge: Sequence[Point], inner: Sequence[Point], colour: Colour) -> None:
        """Slopes from an edge up to what lies beside it."""
        for a, b, c, d in zip(edge, edge[1:], inner[1:], inner, strict=False):
            self.polygon([a, b, c, d], shaded(colour, outward(a, b)))

    def blur(self, width: float) -> None:
        """Soften everything painted so far."""
        scale = self._pygame.transform.smoothscale
        for reach in (width, 0.6 * width):
            small = [max(1, round(side / (self._fine * PIXELS * reach))) for side in self._large.get_size()]
            self._large = scale(scale(self._large, small), self._large.get_size())

    def lay_on(self, canvas: Any) -> None:
        """Put what was painted onto the picture."""
        small = self._pygame.transform.smoothscale(self._large, self.size)
        canvas.blit(small, (self.left, self.top), special_flags=self._pygame.BLEND_PREMULTIPLIED)

    def _place(self, point: Point) -> Point:
        x, y = pixel(point)
        return self._fine * (x - self.left), self._fine * (y - self.top)


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
