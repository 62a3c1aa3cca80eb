"""Ray as the transport of a run: its actors are the collectors, its object store carries weights and rollouts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from rookery.cluster.collector_actor import OwnCall, OwnCollector
from rookery.cluster.transport import HELPERS, CollectorLost, PackedActor, RayCollectorActor, nbytes, pack, unpack
from rookery.errors import RunError

PUT_ATTEMPTS, PUT_SECONDS = 30, 2.0  # while the object store is full


class _Shared:
    """A value for several calls, which is packed once, when another process needs it."""

    def __init__(self, value: Any, pack_it: Callable[[Any], Any]) -> None:
        self.value, self._pack = value, pack_it

    @cached_property
    def packed(self) -> Any:
        return self._pack(self.value)


class RayTransport:
    """The nodes of a Ray cluster, by `ray.nodes()`; see `Transport`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._node_of: dict[Any, str] = {}  # of collectors, by handle
        self._node_of_helper: dict[Any, str] = {}
        self._with_gpu: set[Any] = set()  # of these
        self._own_node = str(ray.get_runtime_context().get_node_id())

    def _nodes(self) -> dict[str, dict[str, Any]]:
        """Those that are alive and have cores to offer, by their ids; the learner's first, else in one order."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        offered = [node for node in alive if node["Resources"].get("CPU", 0) >= 1] or alive
        offered.sort(key=lambda node: (node["NodeID"] != self._own_node, node["NodeID"]))
        return {node["NodeID"]: node for node in offered}

    def slots(self, collectors: int | None) -> list[int]:
        nodes = list(self._nodes().values())
        places = [k % len(nodes) for k in range(collectors or len(nodes))]
        shared = Counter(places)
        return [max(1, int(nodes[place]["Resources"].get("CPU", 1)) // shared[place]) for place in places]

    def start(self, index: int) -> Any:
        nodes, taken = list(self._nodes()), Counter(self._node_of.values())
        node = min(nodes, key=lambda each: (taken[each], nodes.index(each)))
        handle = self._start_on(node, RayCollectorActor)
        self._node_of[handle] = node
        return handle

    def start_helper(self, kind: str, on_gpu: bool = False) -> Any:
        taken = Counter(self._node_of_helper.values())
        nodes = (self._nodes_with_gpus() if on_gpu else list(self._nodes()))[::-1]
        node = min(nodes, key=lambda each: (taken[each], nodes.index(each)))
        handle = self._start_on(node, HELPERS[kind], num_gpus=int(on_gpu))
        self._node_of_helper[handle] = node
        if on_gpu:
            self._with_gpu.add(handle)
        return handle

    def _nodes_with_gpus(self) -> list[str]:
        """Nodes with a GPU for one more helper. Of those of the run's own node, one is the run's."""
        taken = Counter(self._node_of_helper[handle] for handle in self._with_gpu) + Counter([self._own_node])
        gpus = {name: int(node["Resources"].get("GPU", 0)) for name, node in self._nodes().items()}
        free = [name for name, count in gpus.items() if count > taken[name]]
        if not free:
            raise RunError(
                f"{1 + len(self._with_gpu)} learners have a GPU each, and there is none for one more, as NCCL refuses "
                f"two learners on one GPU (the cluster has {sum(gpus.values())}): use fewer `cluster.learners`, or add "
                "nodes with GPUs"
            )
        return free

    def _start_on(self, node: str, actor: type[PackedActor], num_gpus: int = 0) -> Any:
        """There and nowhere else: with `soft`, Ray sometimes prefers the run's own node, though the other one is free.
        On a node that dies in the meantime, the process is lost as any other."""
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        made = self._ray.remote(num_cpus=0, num_gpus=num_gpus, max_restarts=0, max_task_retries=0)(actor)
        return made.options(scheduling_strategy=strategy).remote()

    def address(self) -> str:
        return str(self._ray.util.get_node_ip_address())

    def own(self) -> Any:
        if self._own_node not in self._nodes():
            return self.start(0)
        collector = OwnCollector()
        self._node_of[collector] = self._own_node
        return collector

    def place(self, handle: Any) -> str:
        node = self._node_of.get(handle) or self._node_of_helper.get(handle, "")
        known = next((each for each in self._ray.nodes() if each["NodeID"] == node), None)
        return "a node" if known is None else f"node {known['NodeName']}, {node[:8]}"

    def dashboard(self) -> str | None:
        address = self._ray._private.worker.get_dashboard_url()
        return f"http://{address}" if address else None

    def idle_nodes(self) -> int:
        return len(set(self._nodes()) - set(self._node_of.values()))

    def crowded(self, handles: list[Any]) -> list[Any]:
        nodes = [self._node_of.get(handle, "") for handle in handles]
        return [handle for k, handle in enumerate(handles) if nodes[k] in nodes[:k]][::-1]

    def share(self, value: Any) -> Any:
        return _Shared(value, self._packed)

    def _packed(self, value: Any) -> Any:
        """As it travels to other processes: small values with each call, others to each node once."""
        packed = pack(value)
        return packed if isinstance(packed, bytes) else self._put(packed)

    def _put(self, value: Any) -> Any:
        """Into the object store. While others have filled it, Ray waits for room for some seconds; this for longer."""
        full = self._ray.exceptions.ObjectStoreFullError, self._ray.exceptions.OutOfDiskError
        for attempt in range(1, PUT_ATTEMPTS + 1):
            try:
                return self._ray.put(value)
            except full as error:
                if attempt == PUT_ATTEMPTS:
                    raise RunError(
                        f"Ray's object store has no room for {nbytes(value):,} bytes of weights: end what fills it "
                        f"(`ray memory` lists it), or start Ray with more --object-store-memory ({first_line(error)})"
                    ) from None
                time.sleep(PUT_SECONDS)
        raise AssertionError

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        if isinstance(handle, OwnCollector):
            return OwnCall(handle, method, tuple(arg.value if isinstance(arg, _Shared) else arg for arg in args))
        return handle.call.remote(method, *(arg.packed if isinstance(arg, _Shared) else pack(arg) for arg in args))

    def result(self, call: Any, seconds: float | None) -> Any:
        return call.result() if isinstance(call, OwnCall) else unpack(self._returned(call, seconds))

    def _returned(self, call: Any, seconds: float | None) -> Any:
        """What a process has returned, or the error in words of `Transport`."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call, timeout=seconds)
        except errors.GetTimeoutError:
            raise TimeoutError from None
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            raise cause from None
        except errors.RayError as error:
            raise CollectorLost(first_line(error)) from None

    def first_done(self, calls: list[Any], seconds: float) -> int | None:
        done, _ = self._ray.wait(calls, num_returns=1, timeout=seconds, fetch_local=False)
        return calls.index(done[0]) if done else None

    def kill(self, handle: Any) -> None:
        self._node_of.pop(handle, None)
        self._node_of_helper.pop(handle, None)
        self._with_gpu.discard(handle)
        with suppress(Exception):
            handle.close() if isinstance(handle, OwnCollector) else self._ray.kill(handle)


def first_line(error: Exception) -> str:
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].rstrip(".:")[:200] if lines else type(error).__name__
