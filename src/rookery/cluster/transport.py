"""What the run needs of a cluster: processes that hold a `CollectorActor`, calls of its methods, and their results.

Small arguments and results travel as one piece of bytes each. Ray sends what is small within its messages, but handles
every array in it apart: a rollout of a thousand steps takes 2.4 ms then, and 1.4 ms as one piece. What is large travels
through the object store, as arrays that nobody copies.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import Any, Protocol

import numpy as np

INLINE_BYTES = 64 * 1024  # Ray sends what has less than 100 KiB within its messages


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
        their results are requested."""

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


def pack(value: Any) -> Any:
    """Small arrays as one piece of bytes, anything else as it is. No method has bytes as argument or result.

    >>> unpack(pack({"rewards": np.zeros(3)}))
    {'rewards': array([0., 0., 0.])}
    >>> pack(np.zeros(10_000)).shape
    (10000,)
    """
    return pickle.dumps(value, protocol=5) if 0 < nbytes(value) < INLINE_BYTES else value


def unpack(value: Any) -> Any:
    """What was packed, by another process of the same run."""
    return pickle.loads(value) if isinstance(value, bytes) else value  # noqa: S301 - never a file


def nbytes(value: Any) -> int:
    """Of the arrays in nested dicts, lists and tuples."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(nbytes, value.values()))
    return sum(map(nbytes, value)) if isinstance(value, (list, tuple)) else 0


class PackedActor:
    """An object in a process of Ray, called by the names of its methods. Processes show the names of these classes."""

    kind: tuple[str, str]  # its module and class, which are imported in that process

    def __init__(self) -> None:
        module, name = self.kind
        self._actor = getattr(import_module(module), name)()

    def call(self, method: str, *args: Any) -> Any:
        """What the method returns, packed."""
        return pack(getattr(self._actor, method)(*map(unpack, args)))


class RayCollectorActor(PackedActor):
    kind = "rookery.cluster.collector_actor", "CollectorActor"


class RayLearnerActor(PackedActor):
    kind = "rookery.cluster.helper_learners", "LearnerActor"


class RayEvaluatorActor(PackedActor):
    kind = "rookery.cluster.remote_envs", "EvaluatorActor"


# See `Transport.start_helper`.
HELPERS: dict[str, type[PackedActor]] = {"learner": RayLearnerActor, "evaluator": RayEvaluatorActor}
