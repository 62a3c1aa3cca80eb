"""Runners in this process: what travels is pickled, and runners can be lost in the middle of a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle

from rookery.cluster.transport import CollectorLost
from rookery.cluster.trial_runner import SharedMark, TrialRunner


class ProcessRunners:
    """See `RunnerTransport`. `lose` says whether the runner is lost that has this call, by its number among all."""

    def __init__(
        self, count: int = 2, shared: bool = True, lose: Callable[[str, int], bool] = lambda method, k: False
    ) -> None:
        self.count, self._shared, self._lose = count, shared, lose
        self.started, self.calls = 0, dict[str, int]()
        self._runners: dict[str, TrialRunner] = {}

    def capacity(self) -> int:
        return self.count

    def start(self) -> str:
        self.started += 1
        self._runners[f"runner {self.started}"] = TrialRunner()
        return f"runner {self.started}"

    def call(self, handle: str, method: str, *args: Any) -> Any:
        return handle, method, cloudpickle.dumps(args)

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        return list(calls[:1])

    def result(self, call: Any, seconds: float | None) -> Any:
        handle, method, packed = call
        number = self.calls[method] = self.calls.get(method, 0) + 1
        if handle not in self._runners or self._lose(method, number):
            raise CollectorLost("it was killed")
        args = cloudpickle.loads(packed)
        if method == "begin" and not self._shared:
            args = args[0], SharedMark("/nowhere", "")
        return cloudpickle.loads(cloudpickle.dumps(getattr(self._runners[handle], method)(*args)))

    def kill(self, handle: str) -> None:
        self._runners.pop(handle, None)
