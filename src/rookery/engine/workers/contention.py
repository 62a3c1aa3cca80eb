"""Detects that other programs use the cores, and decides when to try pinning and polling again.

Pinned workers and a polling parent are fastest on an idle machine and slowest beside another busy program: each turn on
a shared core then costs a time slice of about 3 ms (CartPole, 8 envs, beside one busy loop: 3 k steps/s pinned and
polling, 28 k without). Results do not depend on any of this.
"""

from __future__ import annotations

SLICE_SECONDS = 1e-3  # a wait longer than usual by this much is a time slice of another program
DELAYED_SHARE = 0.25  # the cores are crowded if more than this share of recent rounds was delayed
MEMORY = 1 / 32  # weight of one round in the moving average
FIRST_RETREAT_SECONDS = 2.0
LONGEST_RETREAT_SECONDS = 60.0


class Contention:
    """Measures how long rounds take. `crowded` says whether to stop pinning and polling for now."""

    def __init__(self) -> None:
        self.crowded = False
        self._usual, self._share = 1.0, 0.0
        self._until, self._retreat = 0.0, FIRST_RETREAT_SECONDS

    def changed(self, wait: float, now: float) -> bool:
        """Add one round's wait; returns whether `crowded` has changed."""
        if self.crowded:
            if now < self._until:
                return False
            self.crowded, self._share = False, 0.0
            return True
        self._usual = usual = min(self._usual * 1.02, wait)  # the shortest recent one
        if wait <= SLICE_SECONDS + 5 * usual:
            self._share -= MEMORY * self._share
            return False
        self._share += MEMORY * (1 - self._share)  # delayed
        if self._share < DELAYED_SHARE:
            return False
        # The pause doubles each time; it starts over after a long quiet time.
        calm = now - self._until > 10 * self._retreat
        self._retreat = FIRST_RETREAT_SECONDS if calm else min(2 * self._retreat, LONGEST_RETREAT_SECONDS)
        self.crowded, self._until = True, now + self._retreat
        return True
