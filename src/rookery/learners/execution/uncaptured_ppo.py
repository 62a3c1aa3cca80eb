"""PPO on several GPUs: what `CapturedPPO` does, without a graph of the update, in which processes wait for others."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rookery.learners.execution.captured_ppo import CapturedPPO


class UncapturedPPO(CapturedPPO):
    """Fast products and images, values stored while acting."""

    def update(self, clip: Any) -> Tensor:
        with self.products:
            self._evaluate_finals()
        self._learn()
        return self._metrics
