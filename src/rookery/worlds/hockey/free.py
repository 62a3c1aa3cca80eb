"""What players' actions do to rackets and puck before the bodies move; and steps in which nothing touches anything.

Most steps are such. They need no working memory, and a fraction of the time.

Bit for bit what the general way does (physics.py), which also takes all that is not clearly free.
"""

import math
from typing import Any

from rookery.worlds.hockey.bodies import LARGEST_MOVE, accelerated, cos_sin
from rookery.worlds.hockey.contacts import MARGIN, RACKET_NEAR, is_free, is_near
from rookery.worlds.hockey.field import (
    CENTRE_X,
    INVERSE_INERTIA,
    INVERSE_MASS,
    ORIGIN_AHEAD,
    PIXELS,
    PUCK,
    PUCK_MASS,
    PUCK_RADIUS,
    RACKET_CORNERS,
    RACKET_MASS,
    RACKET_OFFSET,
    RACKET_X,
    RACKET_Y,
    STATICS,
    TIME_STEP,
)

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


FORCE = 6000.0
TORQUE = 400.0
TOP_SPEED = 10.0
FREE_DAMPING = 5.0
STRONG_DAMPING = 20.0
ZONE = 0.5  # either side of the centre line
BACK = 210.0 / PIXELS  # from the centre line
LOW_Y = 1.2
HIGH_Y = 6.8
MOST_ANGLE = math.pi / 3.0
TURN_DAMPING = 2.0
STRONG_TURN_DAMPING = 10.0
PER_STEP = RACKET_MASS / TIME_STEP  # a force that changes a racket's velocity by 1 in one step

PUCK_TOP_SPEED = 25.0
PUCK_DAMPING = 0.05
STRONG_PUCK_DAMPING = 10.0
SHOT_SPEED = 60.0
SHOOTING = 0.5  # above it, the fourth number of an action shoots


def within_one(value: float) -> float:
    """The value, cut to [-1, 1]."""
    return max(-1.0, min(1.0, value))


def drive_racket(scratch: Any, player: int) -> None:
    """Sets the forces on a player's racket in this step, from the player's action."""
    ask = 4 * player
    x = scratch.x[player] + scratch.cos[player] * ORIGIN_AHEAD[player]
    y = scratch.y[player] + scratch.sin[player] * ORIGIN_AHEAD[player]
    vx, vy, fx, fy, damping = push(
        player, x, y, scratch.vx[player], scratch.vy[player], scratch.ask[ask], scratch.ask[ask + 1]
    )
    scratch.vx[player], scratch.vy[player] = vx, vy
    scratch.force_x[player], scratch.force_y[player], scratch.damping[player] = fx, fy, damping
    torque, damping = twist(scratch.angle[player], scratch.spin[player], scratch.ask[ask + 2])
    scratch.torque[player], scratch.angular_damping[player] = torque, damping


def push(
    player: int, x: float, y: float, vx: float, vy: float, ask_x: float, ask_y: float
) -> tuple[float, float, float, float, float]:
    """(velocity x, y, force x, y, damping) of a racket with its origin at (x, y), for the force of an action."""
    forward = 1.0 if player == 0 else -1.0
    beyond = forward * (x - CENTRE_X)  # the centre line, seen by the player
    fx = forward * FORCE * within_one(ask_x)
    fy = forward * FORCE * within_one(ask_y)
    damping = STRONG_DAMPING
    if beyond > -ZONE:  # near the centre line the action's force is dropped, and a forward motion is reversed
        fx = -2.0 * vx * PER_STEP if forward * vx > 0.0 else 0.0
        fx -= beyond * vx * PER_STEP
    elif vx * vx + vy * vy < TOP_SPEED * TOP_SPEED:
        damping = FREE_DAMPING
    elif not is_slowing(vx, vy, fx / PER_STEP, fy / PER_STEP):
        return vx, vy, 0.0, 0.0, damping
    # A force that pushes a racket out of the player's half stops it instead.
    if (beyond < -BACK and forward * fx < 0.0) or (beyond > 0.0 and forward * fx > 0.0):
        vx, fx = 0.0, 0.0
    if (y > HIGH_Y and fy > 0.0) or (y < LOW_Y and fy < 0.0):
        vy, fy = 0.0, 0.0
    return vx, vy, fx, fy, damping


def is_slowing(vx: float, vy: float, dvx: float, dvy: float) -> bool:
    """Whether a change of velocity makes it slower."""
    return (vx + dvx) * (vx + dvx) + (vy + dvy) * (vy + dvy) < vx * vx + vy * vy


def twist(angle: float, spin: float, ask: float) -> tuple[float, float]:
    """(torque, damping) of a racket for the torque of an action; beyond the largest angle, it is turned back."""
    if abs(angle) > MOST_ANGLE:
        torque = -0.1 * angle * PER_STEP
        if angle * spin > 0.0:
            torque -= 0.1 * spin * PER_STEP
        return torque, STRONG_TURN_DAMPING
    return TORQUE * within_one(ask), TURN_DAMPING


def drive_puck(state: Any, scratch: Any) -> None:
    """Sets the forces that act on the puck: what is left to be given to it, and more damping when it is fast."""
    scratch.damping[PUCK] = puck_damping(scratch.vx[PUCK], scratch.vy[PUCK])
    scratch.angular_damping[PUCK] = 0.0
    scratch.torque[PUCK] = 0.0
    scratch.force_x[PUCK] = state.push_x * PUCK_MASS / TIME_STEP
    scratch.force_y[PUCK] = state.push_y * PUCK_MASS / TIME_STEP
    state.push_x = 0.0
    state.push_y = 0.0


def puck_damping(vx: float, vy: float) -> float:
    """How a puck of this velocity is slowed."""
    return STRONG_PUCK_DAMPING if vx * vx + vy * vy > PUCK_TOP_SPEED * PUCK_TOP_SPEED else PUCK_DAMPING


def keep_puck(state: Any, scratch: Any, player: int) -> None:
    """Moves a held puck with the player's racket, until the shot."""
    if state.hold[player] <= 1:
        return
    scratch.x[PUCK] = scratch.x[player] + scratch.cos[player] * ORIGIN_AHEAD[player]
    scratch.y[PUCK] = scratch.y[player] + scratch.sin[player] * ORIGIN_AHEAD[player]
    scratch.vx[PUCK] = scratch.vx[player]
    scratch.vy[PUCK] = scratch.vy[player]
    state.hold[player] -= 1
    if state.hold[player] == 1 or scratch.ask[4 * player + 3] > SHOOTING:
        force = (1.0 if player == 0 else -1.0) * SHOT_SPEED * PUCK_MASS / TIME_STEP
        scratch.force_x[PUCK] += force * scratch.cos[player]
        scratch.force_y[PUCK] += force * scratch.sin[player]
        state.hold[player] = 0
