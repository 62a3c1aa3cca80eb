"""Acting and recording of an off-policy learner on a GPU, for envs that return arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from rookery.learners.execution.captured_call import CapturedCall
from rookery.learners.normalize import RunningNorm
from rookery.learners.observations import split
from rookery.learners.offpolicy import OffPolicy
from rookery.training.run.linked_part import LinkedPart


class CapturedRounds:
    """Acting and recording of an off-policy learner, each replayed as a CUDA graph.

    Envs wait for nothing but the choice of their actions: what they returned is recorded while the host waits for
    these, unless acting depends on it. Later would be worse: where every core has an env, whatever the host does while
    they step takes its time from one of them. Copies to the device and back are in the same graph as the choice: each
    launch takes the host 10 to 25 us, in which all envs wait.
    """

    def __init__(self, learner: OffPolicy) -> None:
        self.learner = learner
        learner.keep_step = self._keep
        self._calls: dict[Hashable, CapturedCall] = {}
        self._pending: tuple[LinkedPart, Hashable] | None = None  # whose last step is to be recorded, and of which kind
        self._actions: Tensor | None = None  # as they are stored
        self._may_wait = not any(isinstance(part, RunningNorm) for part in learner.policy.encoder.modules())

    def explore(self, part: LinkedPart) -> None:
        """Queue the choice of actions, and their way to the host."""
        learner, copies = self.learner, not part.is_copied
        learner.begin_round()

        def choose() -> None:
            if copies:
                part.copy()
            part.keep_actions(learner.explore(part.observations, part.rows, part.mask))
            part.fetch_actions()

        self._call(("explore", part, learner.round_kind, copies), choose)()
        part.is_copied = True

    def record_and_store(self, part: LinkedPart) -> None:
        """The choice of actions is queued: queue what could wait for that."""
        kind, self._pending = self._pending[1] if self._pending is not None else None, None

        def work() -> None:
            if kind is not None:
                self.learner.record_tensors(part.step)
            self._store(part)

        self._call(("store", part, kind), work)()

    def record(self, part: LinkedPart) -> None:
        """Queue the recording of the last step, now or after the next choice of actions. It is counted at once."""
        learner = self.learner
        assert learner.rounds is not None
        self._pending = part, (learner.round_kind, part.has_finals)
        if not self._may_wait or not learner.rounds.completes:
            self.flush()
        learner.count_steps()

    def flush(self) -> None:
        """Queue what waits."""
        if self._pending is not None:
            part, kind = self._pending
            part.ensure_copied()
            self._call(("record", part, kind), lambda: self.learner.record_tensors(part.step))()
            self._pending = None

    def _keep(self, leaves: Sequence[Tensor], actions: Tensor) -> None:
        """The actions of a step, until it is stored; its observations stay where they are."""
        if self._actions is None:
            self._actions = torch.zeros_like(actions)
        self._actions.copy_(actions)

    def _store(self, part: LinkedPart) -> None:
        assert self.learner.rounds is not None and self._actions is not None
        self.learner.rounds.store(split(self.learner.leaves, part.observations, self.learner.device), self._actions)

    def release(self) -> None:
        """Capture anew what comes."""
        self.flush()
        for call in self._calls.values():
            call.release()
        self._calls.clear()

    def _call(self, kind: Hashable, work: Callable[[], None]) -> CapturedCall:
        """The captured work of a kind: of one kind it is the same, whenever it is done."""
        if kind not in self._calls:
            learner = self.learner
            self._calls[kind] = CapturedCall(
                work, learner.device, state=learner.round_tensors, generators=[learner.generator], name="a round"
            )
        return self._calls[kind]
