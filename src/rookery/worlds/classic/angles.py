"""Angles, for the worlds that turn."""

import math

TURN = 2.0 * math.pi
PER_TURN = 1.0 / TURN


def wrapped(angle: float) -> float:
    """The same direction, between -pi and pi.

    >>> round(wrapped(7.0), 4), wrapped(-1.5)
    (0.7168, -1.5)
    """
    return angle - TURN * math.floor((angle + math.pi) * PER_TURN)
