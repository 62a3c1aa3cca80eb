"""Metrics of updates on a device, which leave it now and then, without anybody waiting for them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor


class MetricSums:
    """Sums of metrics on the device, and their latest means on the host: a copy is begun now and then, and taken when
    it has arrived."""

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        """Work that has fewer metrics has the first ones of `names`."""
        self.latest: dict[str, float] = {}
        self.sums = torch.zeros(len(names), device=device)
        self._names, self._added = names, [0] * len(names)
        self._present: dict[Hashable, int] = {}  # how many metrics each kind of work has
        self._host = torch.zeros(len(names), pin_memory=device.type == "cuda")
        self._event = torch.cuda.Event() if device.type == "cuda" else None
        self._arriving: list[int] | None = None  # how many values there are in the sums that are being copied

    def add(self, work: Hashable, metrics: Mapping[str, Tensor]) -> None:
        """Add the metrics of one update. This may be captured."""
        count = self._present[work] = len(metrics)
        assert list(metrics) == list(self._names[:count])
        self.sums[:count].add_(torch.stack(list(metrics.values())))

    def count(self, work: Hashable) -> None:
        """That work was done."""
        for k in range(self._present[work]):
            self._added[k] += 1

    def send(self) -> None:
        """Begin to copy the sums to the host, unless a copy is under way."""
        if self._arriving is not None:
            return
        self._host.copy_(self.sums, non_blocking=True)
        if self._event is not None:
            self._event.record()
        self.sums.zero_()
        self._arriving, self._added = self._added, [0] * len(self._names)

    def receive(self) -> dict[str, float]:
        """The latest means that have arrived."""
        if self._arriving is not None and (self._event is None or self._event.query()):
            found = zip(self._names, self._host.tolist(), self._arriving, strict=True)
            self.latest = {name: value / count for name, value, count in found if count}
            self._arriving = None
        return self.latest
