"""PPO whose collectors do not wait for it: rollouts come in when they are ready, of weights of some updates ago."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rookery.cluster.async_collector import AsyncCollector
from rookery.cluster.step_streams import Order
from rookery.learners.execution.vtrace_ppo import VTracePPO
from rookery.learners.remote_steps import RowFiller, WaitingRows


class AsyncRolloutCollector(AsyncCollector):
    """Fills the learner's rollouts with rows of collectors in the order in which they arrive: a fast collector may have
    several rows of one env in a rollout, a slow one none. Rows for which there is no room are in the next rollout.
    Those whose weights are older than `max_staleness` updates are discarded, and not counted."""

    learner: VTracePPO
    note = (
        "collectors do not wait for the learner: its numbers depend on when their rollouts arrive, from the first "
        "update on, and V-trace corrects what older weights did"
    )
    _waiting: WaitingRows | None = None

    def _order(self) -> Order:
        return Order("collect_rollout", (self.weights_now(),), self.learner.updates)

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """A whole rollout; it is completed also if the run is to stop."""
        self.stopwatch.start()
        if self.envs.follow_nodes():
            self._streams.begin()
        filler, ages = RowFiller(self.learner.rollout), []
        while not filler.is_full:
            rows = self._next_rows()
            placed = filler.place(rows)
            self._waiting = rows if rows.count else None
            self._count(placed * self.learner.rollout.length)
            ages += [self.learner.updates - rows.version] * placed
            self.stopwatch.lap("policy")
        self.staleness = sum(ages) / len(ages)

    def _next_rows(self) -> WaitingRows:
        """Rows that are not too old: those left over, or the next that arrive."""
        while True:
            rows = self._waiting or self._arrived()
            if self.learner.updates - rows.version <= self._bound:
                return rows
            self._waiting = None
            self.discarded += rows.count * self.learner.rollout.length

    def _arrived(self) -> WaitingRows:
        share, version, answer = self._receive_next("rollout", lambda lost: None)
        if self.learner.updates - version <= self._bound:
            self._take_episodes(share, answer)
        return WaitingRows(answer["rollout"], np.arange(share.rows.start, share.rows.stop), version)
