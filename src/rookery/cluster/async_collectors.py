"""The collectors of runs whose envs step elsewhere and never wait for the learner: rollouts of PPO, or chunks of steps
for off-policy learners, come in when they are ready, of weights of some updates ago."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.cluster.env_shares import Share
from rookery.cluster.remote_collectors import RemoteCollectors, lost_reason
from rookery.cluster.rollout_collector import RemoteCollector
from rookery.cluster.transport import CollectorLost, Transport, nbytes
from rookery.errors import ConfigError
from rookery.learners.learner import module_state
from rookery.learners.remote_steps import RowFiller, WaitingRows, recorded

AHEAD = 2  # chunks or rollouts asked for from each collector; not more wait for the learner, which bounds the memory
MOST_ROUNDS = 64  # steps of every env in a chunk


class AsyncCollector(RemoteCollector):
    """Receives what collectors have made, in the order in which it arrives."""

    note = ""  # what the run says of it at its beginning

    def __init__(self, envs: Any, *args: Any) -> None:
        super().__init__(envs, *args)
        self._bound = envs.max_staleness
        self._streams = StepStreams(envs.collectors, envs.transport, self._order, min(AHEAD, self._bound))
        self._version, self._weights = -1, None
        self._said = False
        self.staleness = 0.0  # of what was taken last, in updates
        self.discarded = 0  # steps in all

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        super().begin(observations, infos)
        if not self._said:
            self._said = True
            self.envs.on_note(self.note)
        self._streams.begin()

    def _order(self) -> Order:
        """What is requested from collectors now."""
        raise NotImplementedError

    def weights_now(self) -> Any:
        """The present weights, for calls of several collectors."""
        if self._version != self.learner.updates or self._weights is None:
            self._version = self.learner.updates
            self._weights = self.envs.transport.share(module_state(self.learner.policy))
        return self._weights

    def _receive_next(self, part: str, on_lost: Callable[[Share], None]) -> tuple[Share, int, dict[str, Any]]:
        """The next answer that arrives, in which `part` has the steps, and the version of its weights."""
        share, version, answer = self._streams.next(on_lost)
        self.stopwatch.lap("waiting")
        self.envs.figures.add(share.index, answer["seconds"], nbytes(answer[part]))
        self.envs.collectors.tell_notes(share.index, answer)
        self.envs.usage = answer["usage"]
        return share, version, answer

    def _take_episodes(self, share: Share, answer: dict[str, Any]) -> None:
        episodes = answer["episodes"].copy()
        episodes["env"] += share.rows.start
        self._finished.append(episodes)
        self.ended += len(episodes)
        for step, first, infos in answer["infos"]:
            steps = self.steps + (step + 1) * (share.rows.stop - share.rows.start)
            self._tell_info(share.rows.start + first, infos, steps)

    def figures(self) -> dict[str, float]:
        return {
            **super().figures(),
            "cluster/in_flight": self._streams.in_flight,
            "cluster/staleness": self.staleness,
            "cluster/discarded_steps": self.discarded,
        }


@dataclass(frozen=True)
class Order:
    """What is requested from a collector: a call of its `method`. `version` counts the updates of the weights in it."""

    method: str
    args: tuple[Any, ...]
    version: int


@dataclass
class _Stream:
    share: Share
    calls: deque[tuple[Any, int, float]] = field(default_factory=deque)  # call, version of its weights, when it began


class StepStreams:
    """The chunks of all collectors, in the order in which they arrive."""

    def __init__(
        self, collectors: RemoteCollectors, transport: Transport, order: Callable[[], Order], ahead: int = AHEAD
    ) -> None:
        """`order` is what is requested from a collector now, `ahead` how many orders it has at a time."""
        self._collectors, self._transport, self._order, self._ahead = collectors, transport, order, ahead
        self._streams: list[_Stream] = []
        self._turn = 0

    def begin(self) -> None:
        """All envs begin; results that were requested before are ignored."""
        self._streams = [_Stream(share) for share in self._collectors.shares]
        for stream in self._streams * self._ahead:
            self._ask(stream)

    @property
    def in_flight(self) -> int:
        """Chunks that were requested and have not been taken."""
        return sum(len(stream.calls) for stream in self._streams)

    def _ask(self, stream: _Stream) -> None:
        order = self._order()
        call = self._collectors.call(stream.share.index, order.method, *order.args)
        stream.calls.append((call, order.version, time.monotonic()))

    def next(self, on_lost: Callable[[Share], None]) -> tuple[Share, int, dict[str, Any]]:
        """The next chunk: whose it is, the version of its weights, and what came with it. `on_lost` is called for
        envs that were lost with their collector, and have begun new episodes elsewhere."""
        while True:
            stream = self._wait()
            call, version, _ = stream.calls[0]
            try:
                answer = self._collectors.answer(stream.share.index, call)
            except (CollectorLost, TimeoutError) as error:
                self._replace(stream, error, on_lost)
                continue
            stream.calls.popleft()
            self._ask(stream)
            return stream.share, version, answer

    def _wait(self) -> _Stream:
        """A collector whose next chunk is there, or that is lost or overdue; all get their turns."""
        self._turn += 1
        turned = self._streams[self._turn % len(self._streams) :] + self._streams[: self._turn % len(self._streams)]
        limit = min(stream.calls[0][2] for stream in turned) + self._collectors.timeout - time.monotonic()
        place = self._transport.first_done([stream.calls[0][0] for stream in turned], max(0.0, limit))
        return min(turned, key=lambda stream: stream.calls[0][2]) if place is None else turned[place]

    def _replace(self, stream: _Stream, error: Exception, on_lost: Callable[[Share], None]) -> None:
        self._collectors.replace(stream.share.index, lost_reason(error, self._collectors.timeout))
        on_lost(stream.share)
        stream.calls.clear()
        for _ in range(self._ahead):
            self._ask(stream)


class AsyncRolloutCollector(AsyncCollector):
    """Fills the learner's rollouts with rows of collectors in the order in which they arrive: a fast collector may have
    several rows of one env in a rollout, a slow one none. Rows for which there is no room are in the next rollout.
    Those whose weights are older than `max_staleness` updates are discarded, and not counted."""

    learner: Any  # a PPO that corrects for older weights
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


class RemoteStepCollector(AsyncCollector):
    """Records chunks in the order in which they arrive. Steps whose weights were sent more than `max_staleness` updates
    ago are discarded, and not counted."""

    learner: Any  # off-policy
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
        """Record one chunk, and learn from it; the others are collected in the meantime."""
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
        """After a change all collectors get a new order. What they were about to send is ignored."""
        if self.envs.follow_nodes():
            self.learner.reset_envs(slice(0, self.envs.num_envs))
            self._streams.begin()


def rounds_for(bound: int, num_envs: int, learner: Any) -> int:
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
