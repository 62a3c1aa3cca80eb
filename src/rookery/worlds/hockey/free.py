"""Steps in which nothing touches anything: most of them. They need no working memory, and a fraction of the time.

Bit for bit what the general way does (physics.py), which also takes all that is not clearly free.
"""

from typing import Any

from rookery.worlds.hockey.angles import cos_sin
from rookery.worlds.hockey.bodies import LARGEST_MOVE, accelerated
from rookery.worlds.hockey.contacts import MARGIN, RACKET_NEAR, is_free, is_near
from rookery.worlds.hockey.field import (
    INVERSE_INERTIA,
    INVERSE_MASS,
    ORIGIN_AHEAD,
    PUCK,
    PUCK_RADIUS,
    RACKET_CORNERS,
    RACKET_OFFSET,
    RACKET_X,
    RACKET_Y,
    STATICS,
    TIME_STEP,
)
from rookery.worlds.hockey.forces import puck_damping, push, twist

PUCK_SIDE = PUCK_RADIUS + MARGIN
RACKETS_APART = RACKET_NEAR + 2.0 * RACKET_OFFSET  # of origins, not of centres of mass
LITTLE_TURN = 0.3  # turning less, a racket leaves the boxes of its start and its end by less than the margin
# What a step may be; the others are long in ways of their own.
FREE, PUCK_HELD, PUCK_AT_WALL, RACKET_NEAR_SOMETHING = range(4)
Moved = tuple[bool, float, float, float, float, float, float]


def play_freely(state: Any, x1: float, y1: float, turn1: float, x2: float, y2: float, turn2: float) -> int:
    """One step with the two players' actions: returns FREE, or the kind of a hard step, which changes nothing."""
    if state.hold[0] > 0 or state.hold[1] > 0 or state.push_x != 0.0 or state.push_y != 0.0:
        return PUCK_HELD
    free, px, py, pvx, pvy = moved_puck(state)
    if not free:
        return PUCK_AT_WALL
    free, nx1, ny1, angle1, vx1, vy1, spin1 = moved_racket(state, 0, x1, y1, turn1)
    if not free:
        return RACKET_NEAR_SOMETHING
    free, nx2, ny2, angle2, vx2, vy2, spin2 = moved_racket(state, 1, x2, y2, turn2)
    if not free or near(state.x[0], state.y[0], state.x[1], state.y[1], RACKETS_APART):
        return RACKET_NEAR_SOMETHING
    put(state, 0, nx1, ny1, angle1, vx1, vy1, spin1)
    put(state, 1, nx2, ny2, angle2, vx2, vy2, spin2)
    put(state, PUCK, px, py, 0.0, pvx, pvy, state.spin[PUCK])
    state.touching[0] = 0
    state.touching[1] = 0
    state.winner = 0
    return FREE


def put(state: Any, body: int, x: float, y: float, angle: float, vx: float, vy: float, spin: float) -> None:
    """Puts a body somewhere."""
    state.x[body] = x
    state.y[body] = y
    state.angle[body] = angle
    state.vx[body] = vx
    state.vy[body] = vy
    state.spin[body] = spin


def near(x1: float, y1: float, x2: float, y2: float, distance: float) -> bool:
    """Whether two places are within a distance."""
    return (x2 - x1) * (x2 - x1) + (y2 - y1) * (y2 - y1) <= distance * distance


def moved_puck(state: Any) -> tuple[bool, float, float, float, float]:
    """(whether nothing static is near, x, y, velocity x, y) of the puck after the step."""
    x, y, vx, vy = state.x[PUCK], state.y[PUCK], state.vx[PUCK], state.vy[PUCK]
    damping = puck_damping(vx, vy)
    vx = accelerated(vx, 0.0, INVERSE_MASS[PUCK], damping)
    vy = accelerated(vy, 0.0, INVERSE_MASS[PUCK], damping)
    new_x, new_y = x + TIME_STEP * vx, y + TIME_STEP * vy
    free = is_clear(
        min(x, new_x) - PUCK_SIDE, max(x, new_x) + PUCK_SIDE, min(y, new_y) - PUCK_SIDE, max(y, new_y) + PUCK_SIDE
    )
    return free and not is_far(vx, vy), new_x, new_y, vx, vy


def moved_racket(state: Any, player: int, ask_x: float, ask_y: float, ask_turn: float) -> Moved:
    """(whether neither the puck nor anything static is near, origin x, y, angle, velocity x, y, spin after the step)"""
    angle, spin, ahead = state.angle[player], state.spin[player], ORIGIN_AHEAD[player]
    cos, sin = cos_sin(angle)
    x, y = state.x[player] - cos * ahead, state.y[player] - sin * ahead
    vx, vy, fx, fy, damping = push(
        player, x + cos * ahead, y + sin * ahead, state.vx[player], state.vy[player], ask_x, ask_y
    )
    vx = accelerated(vx, fx, INVERSE_MASS[player], damping)
    vy = accelerated(vy, fy, INVERSE_MASS[player], damping)
    torque, damping = twist(angle, spin, ask_turn)
    spin = accelerated(spin, torque, INVERSE_INERTIA[player], damping)
    new_x, new_y, new_angle = x + TIME_STEP * vx, y + TIME_STEP * vy, angle + TIME_STEP * spin
    new_cos, new_sin = cos_sin(new_angle)
    left, right, low, high = racket_box(player, cos, sin)
    beside = state.x[PUCK] < x + left - PUCK_SIDE or state.x[PUCK] > x + right + PUCK_SIDE
    beside = beside or state.y[PUCK] < y + low - PUCK_SIDE or state.y[PUCK] > y + high + PUCK_SIDE
    new_left, new_right, new_low, new_high = racket_box(player, new_cos, new_sin)
    free = beside and abs(TIME_STEP * spin) < LITTLE_TURN and not is_far(vx, vy)
    free = free and is_clear(
        min(x + left, new_x + new_left) - MARGIN, max(x + right, new_x + new_right) + MARGIN,
        min(y + low, new_y + new_low) - MARGIN, max(y + high, new_y + new_high) + MARGIN,
    )  # fmt: skip
    return free, new_x + new_cos * ahead, new_y + new_sin * ahead, new_angle, vx, vy, spin


def racket_box(player: int, cos: float, sin: float) -> tuple[float, float, float, float]:
    """(left, right, low, high) of a racket, from its centre of mass."""
    left, right, low, high = 0.0, 0.0, 0.0, 0.0
    first = player * RACKET_CORNERS
    for corner in range(first, first + RACKET_CORNERS):
        x = cos * RACKET_X[corner] - sin * RACKET_Y[corner]
        y = sin * RACKET_X[corner] + cos * RACKET_Y[corner]
        left, right, low, high = min(left, x), max(right, x), min(low, y), max(high, y)
    return left, right, low, high


def is_clear(low_x: float, high_x: float, low_y: float, high_y: float) -> bool:
    """Whether a rectangle overlaps that of nothing static."""
    if is_free(low_x, high_x, low_y, high_y):
        return True
    for static in range(STATICS):  # noqa: SIM110 - compiled code knows no generators
        if is_near(static, low_x, high_x, low_y, high_y):
            return False
    return True


def is_far(vx: float, vy: float) -> bool:
    """Whether a velocity carries a body so far in a step that it might be cut."""
    return TIME_STEP * TIME_STEP * (vx * vx + vy * vy) > 0.99 * LARGEST_MOVE * LARGEST_MOVE
