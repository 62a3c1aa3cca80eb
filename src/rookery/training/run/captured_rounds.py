"""Acting and recording of an off-policy learner on a GPU, for envs that return arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from rookery.learners.device.captured_call import CapturedCall
from rookery.learners.offpolicy import OffPolicy
from rookery.training.run.linked_part import LinkedPart


class CapturedRounds:
    """Acting and recording of an off-policy learner, each replayed as a CUDA graph."""

    def __init__(self, learner: OffPolicy) -> None:
        self.learner = learner
        self._calls: dict[Hashable, CapturedCall] = {}

    def explore(self, part: LinkedPart) -> None:
        """Queue the choice of actions."""
        learner = self.learner
        learner.begin_round()

        def choose() -> None:
            part.keep_actions(learner.explore(part.observations, part.rows, part.mask))

        self._call(("explore", part, learner.round_kind), choose)()

    def record(self, part: LinkedPart) -> None:
        """Queue the recording of the last step."""
        learner = self.learner
        kind = "record", part, learner.round_kind, part.has_finals
        self._call(kind, lambda: learner.record_tensors(part.step))()
        learner.count_steps()

    def release(self) -> None:
        """Capture anew what comes."""
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
