"""Updates of an off-policy learner on a GPU: several in one launch, without waiting for the device."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learners.execution.captured_call import CapturedCall
from rookery.learners.kernels.gpu.metric_sums import MetricSums
from rookery.learners.kernels.gpu.precision import Products

SIZES = (16, 4)  # updates in one launch, where so many are due; larger graphs take longer to capture and run no faster


class UpdateGroup(NamedTuple):
    """Updates that are made in one launch. Groups that are equal do the same."""

    size: int
    phase: int  # of the first update, in the cycle of updates of the actor


class DeviceUpdates:
    """Makes the updates of a learner in groups, of which each is captured once.

    What follows schedules, and all counts, are tensors that the captured work reads. A changed option is a constant in
    it: `release` captures anew.
    """

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self._calls: dict[UpdateGroup, CapturedCall] = {}
        self.number = torch.zeros((), dtype=torch.int64, device=learner.device)  # of the present update
        self._number = 0  # the same, as the host knows it
        self.metrics = MetricSums(learner.metric_names, learner.device)
        # Without convolutions, every operation here gives the same numbers again: torch's own way to that is slower.
        options, images = learner.options, learner.policy.encoder.is_trained
        self._products = Products(options.precision, options.deterministic and images, learner.device, images)

    def make(self, count: int) -> None:
        """Make so many updates; nothing waits for them."""
        if self._number != self.learner.updates:  # updates count by themselves, but not what is loaded
            self.number.fill_(self.learner.updates)
        while count:
            group = self._next_group(count)
            if group not in self._calls:
                self._calls[group] = self._captured(group)
            self._calls[group]()
            self.learner.updates += group.size
            self.metrics.count(group)
            count -= group.size
        self._number = self.learner.updates

    def release(self) -> None:
        """Capture anew what comes: an option or an address has changed."""
        for call in self._calls.values():
            call.release()
        self._calls.clear()

    def _next_group(self, count: int) -> UpdateGroup:
        """The largest group of whole cycles, or one update. In a cycle the last update differs from the others."""
        cycle = self.learner.update_cycle
        phase = self.learner.updates % cycle
        sizes = (size - size % cycle for size in SIZES) if phase == 0 else ()
        whole = next((size for size in sizes if 0 < size <= count), None)
        return UpdateGroup(1, cycle - 1 if phase == cycle - 1 else 0) if whole is None else UpdateGroup(whole, 0)

    def _captured(self, group: UpdateGroup) -> CapturedCall:
        learner = self.learner

        def updates() -> None:
            metrics: defaultdict[str, list[Tensor]] = defaultdict(list)
            with warnings.catch_warnings(), self._products:
                # autograd's thread begins without a context, and torch says so at its first product
                warnings.filterwarnings("ignore", message=".*no current CUDA context")
                for k in range(group.size):
                    self.number.add_(1)
                    learner.train_step(metrics if k == group.size - 1 else None, group.phase + k + 1)
            self.metrics.add(group, metrics)

        def state() -> list[Tensor]:
            return [*learner.trained_tensors(), self.metrics.sums, self.number]

        return CapturedCall(updates, learner.device, state=state, generators=[learner.generator], name="updates")
