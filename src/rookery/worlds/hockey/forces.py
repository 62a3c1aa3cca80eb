"""What players' actions do to rackets and puck before the bodies move."""

import math
from typing import Any

from rookery.worlds.hockey.field import CENTRE_X, ORIGIN_AHEAD, PIXELS, PUCK, PUCK_MASS, RACKET_MASS, TIME_STEP

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
    """Sets the forces that act on a player's racket in this step, as asked for by the player."""
    ask = 4 * player
    forward = 1.0 if player == 0 else -1.0
    origin_x = scratch.x[player] + scratch.cos[player] * ORIGIN_AHEAD[player]
    origin_y = scratch.y[player] + scratch.sin[player] * ORIGIN_AHEAD[player]
    beyond = forward * (origin_x - CENTRE_X)  # the centre line, seen by the player
    fx = forward * FORCE * within_one(scratch.ask[ask])
    fy = forward * FORCE * within_one(scratch.ask[ask + 1])
    vx, vy = scratch.vx[player], scratch.vy[player]
    scratch.damping[player] = STRONG_DAMPING
    if beyond > -ZONE:
        back_off(scratch, player, forward, beyond, origin_y, fy)
    elif vx * vx + vy * vy < TOP_SPEED * TOP_SPEED:
        scratch.damping[player] = FREE_DAMPING
        push_within_bounds(scratch, player, forward, beyond, origin_y, fx, fy)
    elif is_slowing(vx, vy, fx / PER_STEP, fy / PER_STEP):
        push_within_bounds(scratch, player, forward, beyond, origin_y, fx, fy)
    else:
        scratch.force_x[player], scratch.force_y[player] = 0.0, 0.0
    twist_racket(scratch, player, TORQUE * within_one(scratch.ask[ask + 2]))


def is_slowing(vx: float, vy: float, dvx: float, dvy: float) -> bool:
    """Whether a change of velocity makes it slower."""
    return (vx + dvx) * (vx + dvx) + (vy + dvy) * (vy + dvy) < vx * vx + vy * vy


def back_off(scratch: Any, player: int, forward: float, beyond: float, y: float, fy: float) -> None:
    """At the centre line the own force is dropped, and a racket that comes forward is turned back."""
    vx = scratch.vx[player]
    fx = -2.0 * vx * PER_STEP if forward * vx > 0.0 else 0.0
    push_within_bounds(scratch, player, forward, beyond, y, fx - beyond * vx * PER_STEP, fy)


def push_within_bounds(
    scratch: Any, player: int, forward: float, beyond: float, y: float, fx: float, fy: float
) -> None:
    """Applies a force, except where it pushes a racket out of the player's half: there it stops the racket."""
    if (beyond < -BACK and forward * fx < 0.0) or (beyond > 0.0 and forward * fx > 0.0):
        scratch.vx[player] = 0.0
        fx = 0.0
    if (y > HIGH_Y and fy > 0.0) or (y < LOW_Y and fy < 0.0):
        scratch.vy[player] = 0.0
        fy = 0.0
    scratch.force_x[player], scratch.force_y[player] = fx, fy


def twist_racket(scratch: Any, player: int, torque: float) -> None:
    """Turns a racket, or turns it back where it has gone too far."""
    angle, spin = scratch.angle[player], scratch.spin[player]
    if abs(angle) > MOST_ANGLE:
        torque = -0.1 * angle * PER_STEP
        if angle * spin > 0.0:
            torque -= 0.1 * spin * PER_STEP
        scratch.angular_damping[player] = STRONG_TURN_DAMPING
    else:
        scratch.angular_damping[player] = TURN_DAMPING
    scratch.torque[player] = torque


def drive_puck(state: Any, scratch: Any) -> None:
    """Sets the forces that act on the puck: what is left to be given to it, and more damping when it is fast."""
    vx, vy = scratch.vx[PUCK], scratch.vy[PUCK]
    fast = vx * vx + vy * vy > PUCK_TOP_SPEED * PUCK_TOP_SPEED
    scratch.damping[PUCK] = STRONG_PUCK_DAMPING if fast else PUCK_DAMPING
    scratch.angular_damping[PUCK] = 0.0
    scratch.torque[PUCK] = 0.0
    scratch.force_x[PUCK] = state.push_x * PUCK_MASS / TIME_STEP
    scratch.force_y[PUCK] = state.push_y * PUCK_MASS / TIME_STEP
    state.push_x = 0.0
    state.push_y = 0.0


def keep_puck(state: Any, scratch: Any, player: int) -> None:
    """A player who holds the puck carries it on, until the shot."""
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
