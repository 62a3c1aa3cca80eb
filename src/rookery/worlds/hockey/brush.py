"""What the picture of the table is painted with: smooth shapes, bevels and shadows.

Shapes are drawn several times as large as they appear and scaled down, which smooths their edges. Colours that let
something through are kept multiplied by how much they hide, so that scaling mixes them rightly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rookery.extras import load_pygame
from rookery.worlds.hockey.field import PIXELS

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
