"""Cosine and sine together, worked out alike everywhere.

Libraries differ in last bits from machine to machine, and answer for any angle at all. On an H200 hockey makes 322 M
steps/s with these and 293 M with CUDA's.
"""

import math

QUARTER = 0.5 * math.pi
PER_QUARTER = 2.0 / math.pi
# Taylor's series: within an eighth of a turn, what they leave out is below rounding.
C2, C4, C6, C8, C10, C12, C14, C16 = ((-1) ** (n // 2) / math.factorial(n) for n in range(2, 17, 2))
S3, S5, S7, S9, S11, S13, S15 = ((-1) ** (n // 2) / math.factorial(n) for n in range(3, 16, 2))


def cos_sin(angle: float) -> tuple[float, float]:
    """(cosine, sine) of an angle of a few turns at most.

    >>> cos_sin(0.0), [round(value, 6) for value in cos_sin(2.0)]
    ((1.0, 0.0), [-0.416147, 0.909297])
    """
    turns = int(math.floor(angle * PER_QUARTER + 0.5))  # noqa: RUF046 - on a GPU, floor gives a float
    rest = angle - turns * QUARTER
    r = rest * rest
    cos = 1.0 + r * (C2 + r * (C4 + r * (C6 + r * (C8 + r * (C10 + r * (C12 + r * (C14 + r * C16)))))))
    sin = rest + rest * r * (S3 + r * (S5 + r * (S7 + r * (S9 + r * (S11 + r * (S13 + r * S15))))))
    if turns & 1:
        cos, sin = -sin, cos
    if turns & 2:
        cos, sin = -cos, -sin
    return cos, sin
