"""An on-policy learner's update as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery.learners.execution.captured_call import CapturedCall


class CapturedUpdate:
    """Replays `function`, which updates the learner from its full rollout. A graph has options in it, and addresses:
    another one is captured when they have changed."""

    def __init__(self, learner: Any, function: Callable[[], None]) -> None:
        self._learner = learner
        self._call = CapturedCall(
            function, learner.device, state=learner.device_state, generators=[learner.generator], name="an update"
        )
        self._made_for: list[Any] = []

    def __call__(self) -> None:
        learner = self._learner
        tensors = {name: tensor for name, tensor in learner.rollout._tensors().items() if name != "noise"}
        now = [learner.options, learner.rollout, *tensors.values()]
        if len(now) != len(self._made_for) or any(a is not b for a, b in zip(now, self._made_for, strict=True)):
            self._call.release()
            self._made_for = now
        self._call()
