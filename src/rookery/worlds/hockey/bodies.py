"""The moving bodies: from the state to centres of mass and back, and how they move."""

import math
from typing import Any

from rookery.worlds.hockey.angles import cos_sin
from rookery.worlds.hockey.field import DYNAMIC, GROUND, INVERSE_INERTIA, INVERSE_MASS, ORIGIN_AHEAD, PUCK, TIME_STEP

LARGEST_MOVE = 2.0  # in one step
LARGEST_TURN = 0.5 * math.pi


def load_bodies(state: Any, scratch: Any) -> None:
    """Fills the working memory with all bodies as they stand."""
    for body in range(DYNAMIC):
        scratch.angle[body] = state.angle[body]
        turn(scratch, body)
        scratch.x[body] = state.x[body] - scratch.cos[body] * ORIGIN_AHEAD[body]
        scratch.y[body] = state.y[body] - scratch.sin[body] * ORIGIN_AHEAD[body]
        scratch.vx[body] = state.vx[body]
        scratch.vy[body] = state.vy[body]
        scratch.spin[body] = state.spin[body]
    load_ground(scratch)


def load_ground(scratch: Any) -> None:
    """The body of all that never moves."""
    scratch.x[GROUND] = 0.0
    scratch.y[GROUND] = 0.0
    scratch.angle[GROUND] = 0.0
    scratch.cos[GROUND] = 1.0
    scratch.sin[GROUND] = 0.0
    scratch.vx[GROUND] = 0.0
    scratch.vy[GROUND] = 0.0
    scratch.spin[GROUND] = 0.0


def store_bodies(state: Any, scratch: Any) -> None:
    """Writes the bodies back to the state."""
    for body in range(DYNAMIC):
        state.angle[body] = scratch.angle[body]
        state.x[body] = scratch.x[body] + scratch.cos[body] * ORIGIN_AHEAD[body]
        state.y[body] = scratch.y[body] + scratch.sin[body] * ORIGIN_AHEAD[body]
        state.vx[body] = scratch.vx[body]
        state.vy[body] = scratch.vy[body]
        state.spin[body] = scratch.spin[body]


def turn(scratch: Any, body: int) -> None:
    """Updates cosine and sine from the angle. The puck is round, so its angle is not needed."""
    if body == PUCK:
        scratch.angle[body] = 0.0
    scratch.cos[body], scratch.sin[body] = cos_sin(scratch.angle[body])


def accelerate(scratch: Any, body: int) -> None:
    """Lets forces, then damping, act on a body's velocity for one step."""
    mass, inertia = INVERSE_MASS[body], INVERSE_INERTIA[body]
    scratch.vx[body] = accelerated(scratch.vx[body], scratch.force_x[body], mass, scratch.damping[body])
    scratch.vy[body] = accelerated(scratch.vy[body], scratch.force_y[body], mass, scratch.damping[body])
    scratch.spin[body] = accelerated(scratch.spin[body], scratch.torque[body], inertia, scratch.angular_damping[body])


def accelerated(speed: float, force: float, inverse_mass: float, damping: float) -> float:
    """A speed after a force, then damping, has acted on it for one step."""
    return (speed + TIME_STEP * inverse_mass * force) * (1.0 - TIME_STEP * damping)


def move(scratch: Any, body: int, duration: float) -> None:
    """Moves a body on with its velocity, which is cut where it would carry it too far."""
    dx, dy = duration * scratch.vx[body], duration * scratch.vy[body]
    squared = dx * dx + dy * dy
    if squared > LARGEST_MOVE * LARGEST_MOVE:
        cut = LARGEST_MOVE / math.sqrt(squared)
        scratch.vx[body] *= cut
        scratch.vy[body] *= cut
    turned = abs(duration * scratch.spin[body])
    if turned > LARGEST_TURN:
        scratch.spin[body] *= LARGEST_TURN / turned
    scratch.x[body] += duration * scratch.vx[body]
    scratch.y[body] += duration * scratch.vy[body]
    scratch.angle[body] += duration * scratch.spin[body]
    turn(scratch, body)


def mark_start(scratch: Any, body: int) -> None:
    """Remembers where a body's sweep begins."""
    scratch.start_x[body] = scratch.x[body]
    scratch.start_y[body] = scratch.y[body]
    scratch.start_angle[body] = scratch.angle[body]
