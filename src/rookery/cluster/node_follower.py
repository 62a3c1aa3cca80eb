"""Nodes that join and leave a cluster while a run goes on: between two rollouts, the envs are divided anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rookery.cluster.env_shares import Share, divide_envs
from rookery.cluster.remote_collectors import RemoteCollectors
from rookery.cluster.transport import CollectorLost, Transport
from rookery.errors import RunError
from rookery.training.resolve.resolved_run import ResolvedRun

CHECK_SECONDS = 5.0  # between two looks at the nodes
LEAVE_SECONDS = 30.0  # a node that is replaced sooner costs only what was lost with it


class NodeFollower:
    """Keeps one collector on every node. A process on a new node starts in the background, and gets envs when it is
    ready: those of a collector that shares its node with another one since its own was lost, else a part of all."""

    def __init__(self, collectors: RemoteCollectors, transport: Transport, run: ResolvedRun) -> None:
        self._collectors, self._transport, self._run = collectors, transport, run
        self._joining: tuple[Any, Any] | None = None  # a process on a new node, and its first call
        self._refused = 0  # nodes that differ from this one
        self._look_at = time.monotonic() + CHECK_SECONDS
        self._crowded_since: float | None = None
        self.clock: Callable[[], float] = time.monotonic

    def follow(self) -> list[Share]:
        """What has changed by now; returns the shares whose envs have begun new episodes."""
        if self._joining is None and self.clock() < self._look_at:
            return []
        self._look_at = self.clock() + CHECK_SECONDS
        if self._joining is not None:
            return self._join()
        if self._transport.idle_nodes() > self._refused and len(self._collectors.shares) < self._run.num_envs:
            handle = self._transport.start(len(self._collectors.shares))
            self._joining = handle, self._transport.call(handle, "facts", *self._collectors.code)
            return []
        return self._leave()

    def _join(self) -> list[Share]:
        """Give envs to the process on a new node, once it is ready."""
        assert self._joining is not None
        handle, call = self._joining
        if self._transport.first_done([call], 0.0) is None:
            return []
        self._joining = None
        try:
            self._collectors.check(self._transport.result(call, 0.0))
        except (CollectorLost, TimeoutError, RunError) as error:
            self._transport.kill(handle)
            self._refused += isinstance(error, RunError)
            self._collectors.note(f"a node that joined gets no envs: {error}")
            return []
        handles = self._collectors.handles
        crowded = self._transport.crowded(handles)
        if not crowded:
            return self._divide([*handles, handle], "a node has joined")
        self._crowded_since = None
        moved = [handle if each is crowded[0] else each for each in handles]
        return self._assign(moved, self._collectors.shares, "a node has joined")

    def _leave(self) -> list[Share]:
        """Divide the envs of a node that is gone, and was not replaced, over the others."""
        crowded = self._transport.crowded(self._collectors.handles)
        if not crowded:
            self._crowded_since = None
            return []
        if self._crowded_since is None:
            self._crowded_since = self.clock()
        if self.clock() - self._crowded_since < LEAVE_SECONDS:
            return []
        self._crowded_since = None
        return self._divide([each for each in self._collectors.handles if each is not crowded[0]], "a node has left")

    def _divide(self, handles: list[Any], why: str) -> list[Share]:
        return self._assign(handles, divide_envs(self._run, self._transport.slots(len(handles))), why)

    def _assign(self, handles: list[Any], shares: list[Share], why: str) -> list[Share]:
        changed = self._collectors.assign(handles, shares)
        names = ", ".join(share.text for share in changed)
        self._collectors.note(
            f"{why}: {len(shares)} collectors step the envs now; {names} begin new episodes, and from here on the "
            "numbers of the run depend on when that happened"
        )
        return changed
