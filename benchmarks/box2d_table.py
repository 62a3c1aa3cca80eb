"""The table of the original hockey game on Box2D: walls, posts, goals, two rackets and the puck.

Sizes and masses are given again here, rather than taken from rookery's own world, so that the two can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from Box2D import b2CircleShape, b2ContactListener, b2FixtureDef, b2PolygonShape, b2World

Point = tuple[float, float]

PIXELS = 60.0
TIME_STEP = 0.02
ITERATIONS = (180, 60)  # of the solver, for velocities and for positions
CENTRE_X, CENTRE_Y = 5.0, 4.0
RACKET_MASS = 58.0
PUCK_MASS = 1.0323623
PUCK_RADIUS = 13.0 / PIXELS

RACKET = ((-10, 20), (5, 20), (5, -20), (-10, -20), (-18, -10), (-21, 0), (-18, 10))  # of player 1, in pixels
RACKET_SCALE = 1.2
POST = ((-10, 135), (10, 128), (10, -5), (-10, -5))  # the lower left one, in pixels
WALL_BITS, RACKET_BITS, PUCK_BITS, GOAL_BITS = 1, 2, 4, 8

RACKETS = ("racket 1", "racket 2")
GOALS = ("goal 1", "goal 2")  # each behind the player of that number
PUCK = "puck"


class Contacts(b2ContactListener):
    """Tells what the puck begins to touch, at the moment when it does."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def BeginContact(self, contact: Any) -> None:
        first, second = contact.fixtureA.body.userData, contact.fixtureB.body.userData
        if PUCK in (first, second):
            self._tell(second if first == PUCK else first)


class Table:
    """A Box2D world with all that belongs to a game."""

    def __init__(self, rackets: Sequence[Point], puck: Point, on_contact: Callable[[str], None]) -> None:
        """With rackets and puck at these places; `on_contact` is called with the name of what the puck begins to
        touch."""
        self._contacts = Contacts(on_contact)  # which Box2D does not keep alive
        self._world = b2World(gravity=(0, 0), contactListener=self._contacts)
        self._add_walls()
        self._add_goals()
        self.rackets = [self._racket(*each) for each in zip(RACKETS, rackets, (1, -1), strict=True)]
        self.puck = self._puck(puck)

    def step(self) -> None:
        """Moves all bodies on."""
        self._world.Step(TIME_STEP, *ITERATIONS)

    def _add_walls(self) -> None:
        for y in (0.5, 7.5):
            self._static("wall", _box(CENTRE_X, y, 250, 10), WALL_BITS, RACKET_BITS | PUCK_BITS)
        for side_x in (1, -1):
            for side_y in (1, -1):
                x, y = CENTRE_X - side_x * 245 / PIXELS, CENTRE_Y - side_y * 3.5
                corners = [(x + side_x * dx / PIXELS, y + side_y * dy / PIXELS) for dx, dy in POST]
                self._static("post", b2PolygonShape(vertices=corners), WALL_BITS, RACKET_BITS | PUCK_BITS)

    def _add_goals(self) -> None:
        """Each is a wall to rackets; the puck goes through it, which is noticed."""
        for name, side in zip(GOALS, (-1, 1), strict=True):
            shape = _box(CENTRE_X + side * 255 / PIXELS, CENTRE_Y, 10, 75)
            self._static("goal wall", shape, GOAL_BITS, RACKET_BITS)
            self._static(name, shape, GOAL_BITS, PUCK_BITS, is_sensor=True)

    def _static(self, name: str, shape: Any, category: int, mask: int, is_sensor: bool = False) -> None:
        fixture = b2FixtureDef(
            shape=shape, friction=0.1, restitution=0.0, categoryBits=category, maskBits=mask, isSensor=is_sensor
        )
        self._world.CreateStaticBody(userData=name, fixtures=fixture)

    def _racket(self, name: str, place: Point, forward: int) -> Any:
        corners = [(forward * RACKET_SCALE * x / PIXELS, RACKET_SCALE * y / PIXELS) for x, y in RACKET]
        fixture = b2FixtureDef(
            shape=b2PolygonShape(vertices=corners), density=RACKET_MASS / _area(corners), friction=1.0, restitution=0.0,
            categoryBits=RACKET_BITS, maskBits=WALL_BITS | RACKET_BITS | PUCK_BITS | GOAL_BITS,
        )  # fmt: skip
        return self._world.CreateDynamicBody(position=place, userData=name, fixtures=fixture)

    def _puck(self, place: Point) -> Any:
        fixture = b2FixtureDef(
            shape=b2CircleShape(radius=PUCK_RADIUS), density=PUCK_MASS / (math.pi * PUCK_RADIUS**2), friction=0.1,
            restitution=0.95, categoryBits=PUCK_BITS, maskBits=WALL_BITS | RACKET_BITS | GOAL_BITS,
        )  # fmt: skip
        return self._world.CreateDynamicBody(position=place, userData=PUCK, fixtures=fixture)


def _box(x: float, y: float, half_width: float, half_height: float) -> Any:
    """A box whose size is given in pixels."""
    return b2PolygonShape(box=(half_width / PIXELS, half_height / PIXELS, (x, y), 0))


def _area(corners: Sequence[Point]) -> float:
    following = [*corners[1:], corners[0]]
    return 0.5 * abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(corners, following, strict=True)))
