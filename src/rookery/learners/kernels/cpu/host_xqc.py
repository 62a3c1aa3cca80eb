"""XQC's accelerator on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator


class HostXQC(Accelerator):
    """Brings distributions back to the atoms by adding each probability where it belongs, instead of comparing all
    places with all atoms."""

    replaces = ("projected",)

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cpu"

    @staticmethod
    def projected(probabilities: Tensor, places: Tensor) -> Tensor:
        """As `XQC.projected`."""
        lower = places.floor().clamp_(max=places.shape[1] - 2)
        upper = (places - lower).mul_(probabilities)
        index = lower.long()
        found = torch.zeros_like(probabilities).scatter_add_(1, index, probabilities - upper)
        return found.scatter_add_(1, index.add_(1), upper)
