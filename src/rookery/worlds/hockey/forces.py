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
