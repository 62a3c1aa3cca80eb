"""The collector of an off-policy run whose envs step elsewhere: chunks of steps come in, and are recorded and learned
from while the collectors go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.cluster.env_shares import Share
from rookery.cluster.packed_calls import nbytes
from rookery.cluster.step_streams import AHEAD, Order, StepStreams
from rookery.engine.engine import EPISODE
from rookery.errors import ConfigError
from rookery.learners.learner import Learner, module_state
from rookery.learners.offpolicy import OffPolicy
from rookery.learners.step_chunks import recorded
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch

MOST_ROUNDS = 64  # steps of every env in a chunk
ASYNCHRONOUS = (
    "collectors do not wait for the learner: its numbers depend on when their steps arrive, from the first step on"
)


class RemoteStepCollector(Collector):
    """Records chunks in the order in which they arrive. Steps whose weights were sent more than `max_staleness` updates
    ago are discarded, and not counted."""

    envs: Any  # `RemoteEnvs`, which makes this
    learner: OffPolicy

    def __init__(self, envs: Any, learner: Learner, stopwatch: Stopwatch, share_done: Callable[[int], float]) -> None:
        self._finished: list[np.ndarray] = []
        super().__init__(envs, learner, stopwatch, share_done)
        self._bound = envs.max_staleness
        self._rounds = rounds_for(self._bound, envs.num_envs, self.learner)
        self._streams = StepStreams(envs.collectors, envs.transport, self._order)
        self._version, self._weights = -1, None
        self._said = False
        self.staleness = self.discarded = 0  # of the latest chunk, in updates; steps in all

    def use(self, envs: Any) -> None:
        self.envs, self._fused = envs, None

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        """The envs have begun already, where they are."""
        self.learner.progress = self._share_done(self.steps)
        if not self._said:
            self._said = True
            self.envs.on_note(ASYNCHRONOUS)
        self._streams.begin()

    def _order(self) -> Order:
        learner = self.learner
        if self._version != learner.updates or self._weights is None:
            self._version, self._weights = learner.updates, self.envs.transport.share(module_state(learner.policy))
        return Order(self._weights, learner.updates, learner.progress, learner.steps, self._rounds)

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """Record one chunk, and learn from it; the others are collected meanwhile."""
        self.stopwatch.start()
        self._follow_nodes()
        share, version, answer = self._streams.next(lambda lost: self.learner.reset_envs(lost.rows))
        self.stopwatch.lap("waiting")
        self.staleness = self.learner.updates - version
        self.envs.figures.add(share.index, answer["seconds"], nbytes(answer["chunk"]))
        self._take_notes(share, answer)
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

    def _take_notes(self, share: Share, answer: dict[str, Any]) -> None:
        for text in answer["notes"]:
            self.envs.on_note(f"collector {share.index}: {text}")
        self.envs.usage = answer["usage"]

    def _take_episodes(self, share: Share, answer: dict[str, Any]) -> None:
        episodes = answer["episodes"].copy()
        episodes["env"] += share.rows.start
        self._finished.append(episodes)
        self.ended += len(episodes)
        for step, first, infos in answer["infos"]:
            start = share.rows.start + first
            count = len(infos["_final_info"] if "_final_info" in infos else infos["_hints"])
            self._tell(
                slice(start, start + count), infos, self.steps + (step + 1) * (share.rows.stop - share.rows.start)
            )

    def finished_episodes(self) -> np.ndarray:
        finished, self._finished = self._finished, []
        return np.concatenate(finished) if finished else np.zeros(0, EPISODE)

    def figures(self) -> dict[str, float]:
        return {
            **self.envs.figures.take(),
            "cluster/in_flight": self._streams.in_flight,
            "cluster/staleness": self.staleness,
            "cluster/discarded_steps": self.discarded,
        }


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
