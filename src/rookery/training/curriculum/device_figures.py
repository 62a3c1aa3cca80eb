"""Figures that leave a device while it goes on working."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class HostCopy:
    """A copy of a tensor in the host's memory. `start` begins to copy, without waiting; `wait` returns the numbers."""

    def __init__(self, source: Tensor) -> None:
        self._source, on_gpu = source, source.device.type == "cuda"
        self._target = torch.empty(source.shape, dtype=source.dtype, pin_memory=on_gpu)
        self._event = torch.cuda.Event() if on_gpu else None
        self.pending = False

    def start(self) -> None:
        """Copy the tensor as it is at this point of the device's work."""
        self._target.copy_(self._source, non_blocking=True)
        if self._event is not None:
            self._event.record()
        self.pending = True

    def wait(self) -> np.ndarray:
        """The copied numbers, once they have arrived."""
        if self._event is not None:
            self._event.synchronize()
        self.pending = False
        return self._target.numpy().copy()
