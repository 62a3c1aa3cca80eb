"""What a run on a cluster tells of it: numbers for its events, and facts for the first one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rookery.cluster.remote_collectors import RemoteCollectors
from rookery.cluster.transport import Transport

MOST_SHOWN = 32  # collectors with a figure of their own: more would be more than anybody reads


class ClusterFigures:
    """Adds up what travels and what collectors do, between two reports."""

    def __init__(
        self, collectors: RemoteCollectors, transport: Transport, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._collectors, self._transport, self._clock = collectors, transport, clock
        self.helpers: Any = None  # `HelperLearners`, where several learn
        self._since, self._bytes = clock(), 0
        self._work: defaultdict[int, float] = defaultdict(float)  # seconds, by collector

    def add(self, index: int, seconds: float, travelled: int) -> None:
        """A collector has worked so long for what it returned, and so many bytes have travelled for it."""
        self._work[index] += seconds
        self._bytes += travelled

    def take(self) -> dict[str, float]:
        """For events: shares and rates since the last call."""
        now = self._clock()
        seconds, self._since = max(now - self._since, 1e-9), now
        handles = self._collectors.handles
        busy = [min(1.0, self._work[k] / seconds) for k in range(len(handles))]
        travelled, self._bytes = self._bytes, 0
        self._work.clear()
        shown = busy if 1 < len(busy) <= MOST_SHOWN else []
        return {
            "cluster/nodes": len({self._transport.place(handle) for handle in handles}),
            "cluster/collectors": len(handles),
            "cluster/lost": self._collectors.losses,
            "cluster/bytes_per_second": travelled / seconds,
            "cluster/busy": sum(busy) / len(busy),
            **{f"cluster/busy_{k}": share for k, share in enumerate(shown)},
            **({} if self.helpers is None else self.helpers.figures()),
        }

    def facts(self) -> dict[str, Any]:
        """For the run's first event: who has which envs where, and the address of the cluster's own dashboard."""
        pairs = zip(self._collectors.handles, self._collectors.shares, strict=True)
        places = [f"{self._transport.place(handle)}: {share.text}" for handle, share in pairs]
        return {"collectors": places, "cluster_dashboard": self._transport.dashboard()}
