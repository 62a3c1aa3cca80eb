"""Between envs that return arrays and a learner on a GPU.

A step of the envs becomes one copy to the device. Recording, acting and updates are queued there, and the host waits
once for each step of a group: for its actions. Meanwhile the other group steps, or the updates of an off-policy learner
are made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.learners.learner import Learner, StepBatch
from rookery.learners.offpolicy import OffPolicy
from rookery.training.run.captured_rounds import CapturedRounds
from rookery.training.run.host_copies import PinnedBuffer
from rookery.training.run.linked_part import LinkedPart


def link_for(envs: Any, learner: Learner) -> DeviceLink | None:
    """What connects these envs and the learner, if it computes on another device than the CPU and takes tensors."""
    if learner.device.type == "cpu" or not learner.takes_tensors:
        return None
    if isinstance(learner, OffPolicy) and len(envs.groups) > 1:
        return None  # its tensors are those of all envs at once
    return DeviceLink(learner, getattr(envs, "engine", envs))


class DeviceLink:
    """Copies what envs return to a learner's device, and actions back."""

    def __init__(self, learner: Learner, engine: Engine) -> None:
        self.learner, self._engine = learner, engine
        self._parts: dict[int, LinkedPart] = {}  # by their first row
        self._pinned: PinnedBuffer | None = None
        self._rounds: CapturedRounds | None = None
        if isinstance(learner, OffPolicy):
            learner.use_tensors()
            self._rounds = CapturedRounds(learner)

    def begin(self, rows: slice, observations: Any, mask: np.ndarray | None) -> None:
        """The first observations of these envs."""
        part = self._parts[rows.start] = LinkedPart(self.learner, rows, observations, mask)
        if part.has_large and self.learner.device.type == "cuda" and self._pinned is None:
            self._pinned = PinnedBuffer(self._engine.batch.buffer)
        part.take(observations, mask)
        part.ensure_copied()

    def explore(self, rows: slice) -> None:
        """Queue the choice of actions for these envs."""
        part = self._parts[rows.start]
        if self._rounds is not None:
            self._rounds.explore(part)
        else:
            part.keep_actions(self.learner.explore(part.observations, rows, part.mask))
            part.fetch_actions()
        part.mark_actions()
        if self._rounds is not None:  # the host would wait for the actions anyway
            self._rounds.record_and_store(part)
        part.stream.used()

    def actions(self, rows: slice) -> Any:
        """Wait for these envs' actions; they are arrays that the next ones overwrite."""
        return self._parts[rows.start].actions()

    def flush(self) -> None:
        """No actions follow for now: queue all that waits."""
        if self._rounds is not None:
            self._rounds.flush()

    def record(self, rows: slice, step: StepBatch) -> None:
        """Queue the recording of a step, whose arrays may be overwritten as soon as actions are there."""
        part = self._parts[rows.start]
        if (step.mask is None) != (part.mask is None):  # masks begin, or end
            part = self._parts[rows.start] = LinkedPart(self.learner, rows, step.observations, step.mask)
        part.take(step.observations, step.mask, step)
        if self._rounds is not None:
            self._rounds.record(part)
        else:
            part.ensure_copied()
            self.learner.record(rows, part.step)
        part.stream.used()

    def close(self) -> None:
        """Release what is pinned and captured."""
        if self._rounds is not None:
            self._rounds.release()
        if self._pinned is not None:
            self._pinned.release()
            self._pinned = None
