"""The collector of an off-policy run whose envs step elsewhere: chunks of steps come in, and are recorded and learned
from while the collectors go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.cluster.async_collector import AsyncCollector
from rookery.cluster.step_streams import AHEAD, Order
from rookery.errors import ConfigError
from rookery.learners.offpolicy import OffPolicy
from rookery.learners.remote_steps import recorded

MOST_ROUNDS = 64  # steps of every env in a chunk


class RemoteStepCollector(AsyncCollector):
    """Records chunks in the order in which they arrive. Steps whose weights were sent more than `max_staleness` updates
    ago are discarded, and not counted."""

    learner: OffPolicy
    note = (
        "collectors do not wait for the learner: its numbers depend on when their steps arrive, from the first step on"
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._rounds = rounds_for(self._bound, self.envs.num_envs, self.learner)

    def _order(self) -> Order:
        learner = self.learner
        return Order(
            "collect_steps", (self.weights_now(), learner.progress, learner.steps, self._rounds), learner.updates
        )

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """Record one chunk, and learn from it; the others are collected meanwhile."""
        self.stopwatch.start()
        self._follow_nodes()
        share, version, answer = self._receive_next("chunk", lambda lost: self.learner.reset_envs(lost.rows))
        self.staleness = self.learner.updates - version
        if self.staleness > self._bound:
            self.discarded += answer["chunk"]["rewards"].size
            self.learner.reset_envs(share.rows)  # nothing follows the steps before
            return
        self._take_episodes(share, answer)
        for _ in recorded(self.learner, share.rows, answer["chunk"]):
            self._count(share.rows.stop - share.rows.start)
            self.stopwatch.lap("policy")
            self.update()

    def _follow_nodes(self) -> None:
        """After a change all collectors are asked anew, and what they were about to send is not waited for."""
        if self.envs.follow_nodes():
            self.learner.reset_envs(slice(0, self.envs.num_envs))
            self._streams.begin()


def rounds_for(bound: int, num_envs: int, learner: OffPolicy) -> int:
    """How many steps of every env a chunk may have, so that steps are seldom older than `bound` updates: while a chunk
    is made, each collector delivers `AHEAD` others, and one more if it is a little faster."""
    updates = learner.options.updates_per_step * (num_envs if learner.options.updates_each == "step" else 1)
    least = int(np.ceil(AHEAD * updates))
    if bound < least:
        raise ConfigError(
            f"`cluster.max_staleness` = {bound} is too small: {num_envs} envs make {least} updates while two chunks of "
            f"one step each are on their way; give at least {least}"
        )
    return max(1, min(MOST_ROUNDS, int(bound / ((AHEAD + 1) * updates)) if updates else MOST_ROUNDS))
