"""Functions of angles."""

import math

TURN = 2.0 * math.pi
PER_TURN = 1.0 / TURN
SMALL = 0.3
S3, S5, S7, S9 = -1 / 6, 1 / 120, -1 / 5040, 1 / 362880
C4, C6, C8, C10 = 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800


def wrapped(angle: float) -> float:
    """The same direction, between -pi and pi.

    >>> round(wrapped(7.0), 4), wrapped(-1.5)
    (0.7168, -1.5)
    """
    return angle - TURN * math.floor((angle + math.pi) * PER_TURN)


def sine_and_cosine(angle: float) -> tuple[float, float]:
    """(sine, cosine) of an angle that is mostly small: then by the first terms of their series, exact to 1e-13.
    The library's reduce their argument first, and of CartPole's step took a third."""
    if abs(angle) > SMALL:
        return math.sin(angle), math.cos(angle)
    q = angle * angle  # the terms in pairs, so that they need not wait for one another
    q2 = q * q
    q4 = q2 * q2
    sine = (1.0 + S3 * q) + (S5 + S7 * q) * q2 + S9 * q4
    cosine = (1.0 - 0.5 * q) + (C4 + C6 * q) * q2 + (C8 + C10 * q) * q4
    return angle * sine, cosine
