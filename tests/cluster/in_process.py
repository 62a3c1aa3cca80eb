"""A cluster in this process: collectors are objects, what travels is pickled, and collectors can be lost. One of them
may be the learner's own, as it is on Ray. Helpers work in threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import cloudpickle
import pytest

from rookery.cluster.collector_actor import CollectorActor, OwnCall, OwnCollector
from rookery.cluster.transport import HELPERS, CollectorLost


class Helper:
    """The handle of a process beside the collectors: an object, and the thread in which its methods are called."""

    def __init__(self, index: int, kind: str) -> None:
        module, name = HELPERS[kind].kind
        self.index, self.actor = index, getattr(import_module(module), name)()
        self.thread, self.killed = ThreadPoolExecutor(1), False

    def __repr__(self) -> str:
        return f"helper {self.index}"

    def kill(self) -> None:
        """As the end of a process: its connections break, and what it was doing is never answered."""
        self.killed = True
        self.actor.close()
        self.thread.shutdown(wait=False)


Fault = Callable[[int, str, int], Exception | None]  # of a collector, a method, and how often it was called before


class InProcess:
    """See `Transport`. `fault` decides which calls fail, and how."""

    def __init__(self, nodes: int = 1, fault: Fault = lambda index, method, times: None, has_own: bool = False) -> None:
        self.nodes, self._fault, self._has_own = nodes, fault, has_own
        self.started: list[int] = []
        self._actors: dict[str, tuple[int, CollectorActor]] = {}
        self._owned: OwnCollector | None = None
        self._times: dict[tuple[int, str], int] = {}
        self.helpers: list[Helper] = []

    def slots(self, collectors: int | None) -> list[int]:
        return [1] * (collectors or self.nodes)

    def start(self, index: int) -> str:
        handle = f"{index}.{len(self.started)}"
        self.started.append(index)
        self._actors[handle] = index, CollectorActor()
        return handle

    def own(self) -> Any:
        self._owned = OwnCollector() if self._has_own else None
        return self.start(0) if self._owned is None else self._owned

    def start_helper(self, kind: str, on_gpu: bool = False) -> Helper:
        self.helpers.append(Helper(len(self.helpers), kind))
        return self.helpers[-1]

    def address(self) -> str:
        return "127.0.0.1"

    def place(self, handle: Any) -> str:
        return f"node {handle}"

    def dashboard(self) -> str | None:
        return "http://127.0.0.1:8265"

    def idle_nodes(self) -> int:
        return max(0, self.nodes - len(self._actors) - (self._owned is not None))

    def crowded(self, handles: list[Any]) -> list[Any]:
        return handles[self.nodes :][::-1]

    def share(self, value: Any) -> Any:
        return value

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        if isinstance(handle, OwnCollector):
            return OwnCall(handle, method, args)
        if isinstance(handle, Helper):
            return self._call_helper(handle, method, cloudpickle.dumps(args))
        return handle, method, cloudpickle.dumps(args)

    def _call_helper(self, helper: Helper, method: str, args: bytes) -> Future[Any]:
        def work() -> Any:
            try:
                error = self._next_fault(helper.index, method)
                if error is not None:
                    helper.kill()
                    raise error
                return cloudpickle.loads(cloudpickle.dumps(getattr(helper.actor, method)(*cloudpickle.loads(args))))
            except Exception:
                if helper.killed:
                    raise CollectorLost("it was killed") from None
                raise

        try:
            return helper.thread.submit(work)
        except RuntimeError:  # its thread has ended
            lost: Future[Any] = Future()
            lost.set_exception(CollectorLost("it was killed"))
            return lost

    def _next_fault(self, index: int, method: str) -> Exception | None:
        times = self._times.get((index, method), 0)
        self._times[index, method] = times + 1
        return self._fault(index, method, times)

    def result(self, call: Any, seconds: float | None) -> Any:
        if isinstance(call, OwnCall):
            return call.result()
        if isinstance(call, Future):
            return call.result(seconds)
        handle, method, args = call
        if handle not in self._actors:
            raise CollectorLost("it was killed")
        index, actor = self._actors[handle]
        error = self._next_fault(index, method)
        if error is not None:
            raise error
        return cloudpickle.loads(cloudpickle.dumps(getattr(actor, method)(*cloudpickle.loads(args))))

    def first_done(self, calls: list[Any], seconds: float) -> int | None:
        waiting = [call for call in calls if isinstance(call, Future)]
        if len(waiting) < len(calls):  # calls of collectors are made when their results are requested
            return 0
        done = wait(waiting, seconds, "FIRST_COMPLETED").done
        return next((k for k, call in enumerate(calls) if call in done), None)

    def kill(self, handle: Any) -> None:
        if isinstance(handle, OwnCollector):
            self._owned = None
            handle.close()
        elif isinstance(handle, Helper):
            handle.kill()
        else:
            self._actors.pop(handle, (0, CollectorActor()))[1].close()


def use(transport: InProcess, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """Runs on Ray use this cluster instead."""

    @contextmanager
    def opened(address: str | None) -> Iterator[InProcess]:
        yield transport

    monkeypatch.setattr("rookery.cluster.remote_envs.open_ray", opened)
    return transport
