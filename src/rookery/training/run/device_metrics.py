"""Metrics and times of work on a GPU, read when somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from rookery.training.run.timing import Stopwatch


class DeviceMetrics(Mapping[str, float]):
    """Numbers in a tensor, as a dict. They are read at the first look, which waits for the device.

    >>> dict(DeviceMetrics(("kl", "entropy"), torch.tensor([0.5, 2.0])))
    {'kl': 0.5, 'entropy': 2.0}
    """

    def __init__(self, names: Sequence[str], values: torch.Tensor) -> None:
        self._names, self._values = tuple(names), values
        self._read: dict[str, float] | None = None

    def _numbers(self) -> dict[str, float]:
        if self._read is None:
            self._read = dict(zip(self._names, self._values.tolist(), strict=True))
        return self._read

    def __getitem__(self, name: str) -> float:
        return self._numbers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class DeviceTimes:
    """How long rollouts and updates take on the device, for the run's shares of time.

    An iteration has three marks: before its rollout, before its update, and after it.
    """

    def __init__(self, device: torch.device, stopwatch: Stopwatch) -> None:
        self._has_events, self._stopwatch = device.type == "cuda", stopwatch

    def mark(self) -> Any:
        """Now, on the device's clock if it has one."""
        if not self._has_events:
            self._stopwatch.lap("policy")
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, marks: Sequence[Any]) -> None:
        """Wait for the last mark of an iteration, and count its times."""
        if not self._has_events:
            return
        marks[-1].synchronize()
        for part, first, second in zip(("policy", "learner"), marks, marks[1:], strict=False):
            self._stopwatch.add(part, first.elapsed_time(second) / 1000)
        self._stopwatch.start()
