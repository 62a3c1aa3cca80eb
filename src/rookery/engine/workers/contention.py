"""Noticing that other programs want the cores, and when to try having them to oneself again.

Pinned workers and watching parents are fastest on a quiet machine and worst beside a busy neighbour: each turn on a
shared core then costs a whole time slice of about 3 ms (CartPole, 8 envs, one busy loop beside: 3 k steps/s pinned and
watching, 28 k without). Results do not depend on any of this.
"""

from __future__ import annotations

SLICE_SECONDS = 1e-3  # a wait longer than usual by this much is a time slice that somebody else had
ROBBED_SHARE = 0.25  # of recent rounds: more than that, and the cores are not ours
MEMORY = 1 / 32  # how much one round counts
FIRST_RETREAT_SECONDS = 2.0
LONGEST_RETREAT_SECONDS = 60.0


class Contention:
    """Watches how long rounds take. `crowded` tells whether to give up pinning and watching for now."""

    def __init__(self) -> None:
        self.crowded = False
        self._usual, self._share = 1.0, 0.0
        self._until, self._retreat = 0.0, FIRST_RETREAT_SECONDS

    def changed(self, wait: float, now: float) -> bool:
        """Take in one round's wait; returns whether `crowded` has changed."""
        if self.crowded:
            if now < self._until:
                return False
            self.crowded, self._share = False, 0.0
            return True
        self._usual = usual = min(self._usual * 1.02, wait)  # the shortest of late
        if wait <= SLICE_SECONDS + 5 * usual:
            self._share -= MEMORY * self._share
            return False
        self._share += MEMORY * (1 - self._share)  # robbed
        if self._share < ROBBED_SHARE:
            return False
        # Doubled each time it is no use; a long quiet spell since the last time starts over.
        calm = now - self._until > 10 * self._retreat
        self._retreat = FIRST_RETREAT_SECONDS if calm else min(2 * self._retreat, LONGEST_RETREAT_SECONDS)
        self.crowded, self._until = True, now + self._retreat
        return True
