"""A replay buffer whose counts are on the device too, so that captured work can write to it and sample from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.observations import Leaf
from rookery.learners.replay_buffer import Complete, NStepBuffer, ReplayBuffer


class DeviceReplay(ReplayBuffer):
    """A replay buffer for updates that a CUDA graph replays. It takes transitions from the host (`add`), or a round of
    them from tensors (`write`, and `count` on the host: a graph replays the first, never the second)."""

    def __init__(self, leaves: Sequence[Leaf], action: Tensor, capacity: int, device: torch.device) -> None:
        self.places = torch.zeros(
            2, dtype=torch.int64, device=device
        )  # how many there are, and where the next one goes
        super().__init__(leaves, action, capacity, device)

    def add(
        self, buffer: NStepBuffer, complete: Complete, next_leaves: Sequence[Tensor], next_masks: Tensor | None
    ) -> np.ndarray:
        slots = super().add(buffer, complete, next_leaves, next_masks)
        self._tell()
        return slots

    def write(self, rows: dict[str, Tensor]) -> Tensor:
        """Keep one transition of each row; returns where they are. Nothing is counted on the host."""
        count = len(rows["outcomes"])
        filled, cursor = self.places
        places = (cursor + torch.arange(count, device=self.device)) % self.capacity
        for name, values in rows.items():
            self._tensors[name].index_copy_(0, places, values)
        self.places.copy_(torch.stack([(filled + count).clamp(max=self.capacity), (cursor + count) % self.capacity]))
        return places

    def count(self, rows: int) -> None:
        """So many transitions were written."""
        self.size = min(self.size + rows, self.capacity)
        self._cursor = (self._cursor + rows) % self.capacity

    def sample_indices(self, count: int, generator: torch.Generator) -> Tensor:
        """Places of transitions, all equally likely. Their number is read on the device."""
        drawn = torch.randint(2**62, (count,), generator=generator, device=self.device)
        return drawn % self.places[0]  # one place is likelier than another by less than 2^-30

    def clear(self) -> None:
        super().clear()
        self.places.zero_()

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self._tell()

    def _tell(self) -> None:
        """Bring the counts to the device, without waiting for it."""
        self.places[0].fill_(self.size)
        self.places[1].fill_(self._cursor)
