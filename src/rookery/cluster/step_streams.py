"""Collectors that never wait for the learner: each has one chunk of steps or one rollout to make, and one more that
follows it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rookery.cluster.env_shares import Share
from rookery.cluster.remote_collectors import RemoteCollectors, lost_reason
from rookery.cluster.transport import CollectorLost, Transport

AHEAD = 2  # chunks or rollouts asked for from each collector; not more wait for the learner, which bounds the memory


@dataclass(frozen=True)
class Order:
    """What a collector is asked for: a call of its `method`. `version` counts the updates of the weights in it."""

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
        """`order` is what a collector is asked for now, `ahead` how many of them it has at a time."""
        self._collectors, self._transport, self._order, self._ahead = collectors, transport, order, ahead
        self._streams: list[_Stream] = []
        self._turn = 0

    def begin(self) -> None:
        """All envs begin; what was asked for before is not waited for."""
        self._streams = [_Stream(share) for share in self._collectors.shares]
        for stream in self._streams * self._ahead:
            self._ask(stream)

    @property
    def in_flight(self) -> int:
        """Chunks that were asked for and have not been taken."""
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
