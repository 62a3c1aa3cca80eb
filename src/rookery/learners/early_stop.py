"""When an update of PPO ends before its last epoch: the policy has moved as far as it may (`target_kl`)."""

from __future__ import annotations

import torch
from torch import Tensor


class EarlyStop:
    """Ends the epochs of an update, and averages their metrics, of which the divergence is the first.

    On a GPU no epoch is left out, as the host would have to wait for the divergence: `stop` becomes 1, and the steps of
    later epochs change nothing.
    """

    def __init__(self, target_kl: float | None, device: torch.device) -> None:
        self._target, self._epochs = target_kl, list[Tensor]()
        self._stops: list[Tensor] | None = None  # before each epoch
        if target_kl is not None and device.type == "cuda":
            self._stops = [torch.zeros((), device=device)]

    @property
    def stop(self) -> Tensor | None:
        """Whether the steps of the next epoch are to change nothing, as a number on a GPU."""
        return None if self._stops is None else self._stops[-1]

    def ends_with(self, metrics: Tensor) -> bool:
        """Whether the epoch with these metrics of its last minibatch is the last one."""
        self._epochs.append(metrics)
        if self._stops is not None:
            assert self._target is not None
            self._stops.append(torch.maximum(self._stops[-1], (metrics[0] > self._target).float()))
            return False
        return self._target is not None and float(metrics[0]) > self._target

    def metrics(self) -> Tensor:
        """Their mean over the epochs that changed something."""
        metrics = torch.stack(self._epochs)
        if self._stops is None:
            return metrics.mean(0)
        made = 1.0 - torch.stack(self._stops[:-1]).unsqueeze(1)
        return (metrics * made).sum(0) / made.sum()
