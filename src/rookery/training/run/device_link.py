"""Between envs that return arrays and a learner on a GPU.

A step of the envs becomes one copy to the device. Recording, acting and updates are queued there, and the host waits
once for each step of a group: for its actions. In that time the other group steps, or the updates of an off-policy
learner are made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.engine.engine import Engine
from rookery.learners.captured_call import CapturedCall
from rookery.learners.execution.choose import use_tensor_envs
from rookery.learners.learner import Learner, StepBatch
from rookery.learners.normalize import RunningNorm
from rookery.learners.observations import split
from rookery.training.run.host_copies import PinnedBuffer
from rookery.training.run.linked_part import LinkedPart


def link_for(envs: Any, learner: Learner) -> DeviceLink | None:
    """What connects these envs and a learner that computes on another device than the CPU."""
    if not learner.on_policy and len(envs.groups) > 1:
        return None  # its tensors are those of all envs at once
    return DeviceLink(learner, getattr(envs, "engine", envs))


class DeviceLink:
    """Copies what envs return to a learner's device, and actions back."""

    def __init__(self, learner: Learner, engine: Engine) -> None:
        self.learner, self._engine = learner, engine
        self._parts: dict[int, LinkedPart] = {}  # by their first row
        self._pinned: PinnedBuffer | None = None
        self._rounds = None if learner.on_policy else CapturedRounds(learner)

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


class CapturedRounds:
    """Acting and recording of an off-policy learner, each replayed as a CUDA graph.

    Envs wait for nothing but the choice of their actions: what they returned is recorded while the host waits for
    these, unless acting depends on it. Later would be worse: where every core has an env, whatever the host does while
    they step takes its time from one of them. Copies to the device and back are in the same graph as the choice: each
    launch takes the host 10 to 25 us, in which all envs wait.
    """

    def __init__(self, learner: Any) -> None:
        self.learner, self._execution = learner, use_tensor_envs(learner)
        self._store_step = partial(type(self._execution).store_step, self._execution)
        self._execution.store_step = self._keep
        self._calls: dict[Hashable, CapturedCall] = {}
        self._pending: tuple[LinkedPart, Hashable] | None = None  # whose last step is to be recorded, and of which kind
        self._actions: Tensor | None = None  # as they are stored
        self._may_wait = not any(isinstance(part, RunningNorm) for part in learner.policy.encoder.modules())

    def explore(self, part: LinkedPart) -> None:
        """Queue the choice of actions, and their way to the host."""
        learner, copies = self.learner, not part.is_copied
        self._execution.before_round()

        def choose() -> None:
            if copies:
                part.copy()
            part.keep_actions(learner.explore(part.observations, part.rows, part.mask))
            part.fetch_actions()

        self._call(("explore", part, self._execution.round_kind, copies), choose)()
        part.is_copied = True

    def record_and_store(self, part: LinkedPart) -> None:
        """The choice of actions is queued: queue what could wait for that."""
        kind, self._pending = self._pending[1] if self._pending is not None else None, None

        def work() -> None:
            if kind is not None:
                self._execution.write(part.step)
            self._store(part)

        self._call(("store", part, kind, self._execution.changes), work)()

    def record(self, part: LinkedPart) -> None:
        """Queue the recording of the last step, now or after the next choice of actions. It is counted at once."""
        execution = self._execution
        execution.make_room(part.rows.stop - part.rows.start)
        self._pending = part, (execution.round_kind, part.has_finals)
        if not self._may_wait or not execution.n_step_buffer.completes:
            self.flush()
        execution.after_round()

    def flush(self) -> None:
        """Queue what waits."""
        if self._pending is not None:
            part, kind = self._pending
            part.ensure_copied()
            self._call(("record", part, kind), lambda: self._execution.write(part.step))()
            self._pending = None

    def _keep(self, rows: slice, leaves: Sequence[Tensor], actions: Tensor) -> None:
        """The actions of a step, until it is stored; its observations stay where they are."""
        if self._actions is None:
            self._actions = torch.zeros_like(actions)
        self._actions.copy_(actions)

    def _store(self, part: LinkedPart) -> None:
        leaves = split(self.learner.leaves, part.observations, self.learner.device)
        self._store_step(part.rows, leaves, self._actions)

    def release(self) -> None:
        """Capture again what comes."""
        self.flush()
        for call in self._calls.values():
            call.release()
        self._calls.clear()

    def _call(self, kind: Hashable, work: Callable[[], None]) -> CapturedCall:
        """The captured work of a kind: of one kind it is the same, whenever it is done."""
        if kind not in self._calls:
            learner = self.learner
            self._calls[kind] = CapturedCall(
                work,
                learner.device,
                state=self._execution.round_stays,
                generators=[learner.generator],
                name="a round",
            )
        return self._calls[kind]
