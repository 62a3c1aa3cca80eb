"""Opponents as numbers, for code on a device.

A code is twice the number of an opponent, plus one if its actions are deterministic. Opponents 0 to 3 are no opponent
and the scripts, which the world plays; the others are policies. The codes below 0 are for games that have not begun:
the copy of the agent is chosen when they begin.
"""

from __future__ import annotations

from rookery.training.resolve.seats import SCRIPTS

WORLD_PLAYED = ("", *dict.fromkeys(SCRIPTS.values()))  # by number
POLICIES = len(WORLD_PLAYED)  # the number of the first policy
COPIES = ("self", "latest")  # of the agent, as it will be when a game begins


def code_of(number: int, deterministic: bool) -> int:
    """The code of an opponent with this number."""
    return 2 * number + deterministic


def code_of_copy(kind: str, deterministic: bool) -> int:
    """The code of a copy of the agent for a game that has not begun.

    >>> [code_of_copy(kind, deterministic) for kind in COPIES for deterministic in (False, True)]
    [-1, -2, -3, -4]
    """
    return -1 - code_of(COPIES.index(kind), deterministic)
