"""What the run needs of a cluster: processes that hold a `CollectorActor`, calls of its methods, and their results."""

from __future__ import annotations

from typing import Any, Protocol


class CollectorLost(Exception):
    """The process of a collector is gone, or its node; the message says what is known about it."""


class Transport(Protocol):
    """Starts collectors on the nodes of a cluster and carries calls to them."""

    def slots(self, collectors: int | None) -> list[int]:
        """How many workers each collector may have, one entry for each; by default one collector a node."""

    def start(self, index: int) -> Any:
        """Start the process of collector `index`, on the node with the fewest; returns its handle at once."""

    def own(self) -> Any:
        """Collector 0 in this process, if its node is one for collectors; else started elsewhere. It makes calls when
        their results are asked for."""

    def start_helper(self, kind: str, on_gpu: bool = False) -> Any:
        """Start a process beside the collectors, a "learner" or an "evaluator", on the node with the fewest of such
        processes, the run's own node last; returns its handle at once. With `on_gpu`, it gets a GPU of its own, and the
        run's own process keeps one; RunError if there are too few."""

    def address(self) -> str:
        """The address of this machine for the nodes of the cluster."""

    def place(self, handle: Any) -> str:
        """The name of its node, for messages."""

    def dashboard(self) -> str | None:
        """The address of the cluster's own dashboard; None if it has none."""

    def idle_nodes(self) -> int:
        """How many nodes have no collector."""

    def crowded(self, handles: list[Any]) -> list[Any]:
        """Those of these collectors that are not the first one on their node, latest first."""

    def share(self, value: Any) -> Any:
        """A large value for the calls of several collectors: it travels to each node once."""

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        """Start a call; calls of one collector are made in turn."""

    def result(self, call: Any, seconds: float | None) -> Any:
        """What a call returns or raises. CollectorLost if nobody is left to answer it, TimeoutError after so many
        seconds."""

    def first_done(self, calls: list[Any], seconds: float) -> int | None:
        """Which of these calls is done, or is lost: the place of the first one; None after so many seconds."""

    def kill(self, handle: Any) -> None:
        """End its process, also one that hangs."""
