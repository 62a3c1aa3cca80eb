"""The scripted opponent: a PD controller that goes behind the puck, kicks it, and else guards its goal."""

import math
from typing import Any

from rookery.kernel.random import uniform
from rookery.worlds.hockey.angles import cos_sin
from rookery.worlds.hockey.field import CENTRE_X, CENTRE_Y, PIXELS, PUCK
from rookery.worlds.hockey.forces import MOST_ANGLE, within_one

STRONG = 2
GAIN_STRONG = 10.0
GAIN_WEAK = 0.5
BRAKE = 0.5
COMING = 0.5  # a puck slower than this, going away, is chased too
BEHIND = 0.5
GUARD_X = -210.0 / PIXELS
SHOOT_BELOW = 7


def scripted_ask(state: Any, player: int, strength: int) -> tuple[float, float, float, float]:
    """The action of a scripted player; advances the swing of its racket."""
    forward = 1.0 if player == 0 else -1.0
    gain = GAIN_STRONG if strength == STRONG else GAIN_WEAK
    state.swing[player] += uniform(state, 0.0, 0.2)
    x, y = forward * (state.x[player] - CENTRE_X), forward * (state.y[player] - CENTRE_Y)
    target_x, target_y = target(state, forward, x, y)
    _, sin = cos_sin(state.swing[player])
    target_angle = MOST_ANGLE * sin
    return (
        steer(gain, target_x - x, forward * state.vx[player], 0.1),
        steer(0.2 * gain, target_y - y, forward * state.vy[player], 0.1),
        steer(0.5 * gain, target_angle - state.angle[player], state.spin[player], 1.0),
        1.0 if 0 < state.hold[player] < SHOOT_BELOW else 0.0,
    )


def target(state: Any, forward: float, x: float, y: float) -> tuple[float, float]:
    """Where a scripted player at (x, y) wants to be, seen from its own side."""
    puck_x, puck_y = forward * (state.x[PUCK] - CENTRE_X), forward * (state.y[PUCK] - CENTRE_Y)
    if forward * state.vx[PUCK] >= COMING:
        return GUARD_X, 0.0
    if x < puck_x and abs(y - puck_y) < BEHIND:
        distance = math.sqrt((x - puck_x) * (x - puck_x) + (y - puck_y) * (y - puck_y))
        return puck_x + 0.2, puck_y + 0.1 * forward * state.vy[PUCK] * distance
    return GUARD_X, puck_y


def steer(gain: float, error: float, speed: float, brake_within: float) -> float:
    """PD control of one axis; it brakes only if it would be there soon."""
    # Compared without dividing, as the speed may be exactly -0.01.
    braking = BRAKE * speed if abs(error) < brake_within * abs(speed + 0.01) else 0.0
    return within_one(gain * error - braking)
