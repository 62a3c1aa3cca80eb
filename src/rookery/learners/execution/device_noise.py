"""Exploration noise in rounds of tensors, which may be captured."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rookery.learners.noise import STRETCH, pink


class DeviceNoise:
    """Noise for all envs at once. Gaussian noise is drawn for each round; pink noise for many rounds ahead, and
    which of them is the present one is on the device too."""

    def __init__(self, kind: Literal["gaussian", "pink"], num_envs: int, size: int, generator: torch.Generator) -> None:
        self.kind, self.size, self._generator = kind, size, generator
        self._round = torch.zeros(1, dtype=torch.int64, device=generator.device)
        self.resize(num_envs)

    @property
    def tensors(self) -> list[Tensor]:
        """What `sample` changes."""
        return [self._round]

    def resize(self, num_envs: int) -> None:
        """Another number of envs; all noise is drawn anew."""
        self._envs, self._used = num_envs, STRETCH
        steps = STRETCH if self.kind == "pink" else 0
        self._drawn = torch.zeros(steps, num_envs, self.size, device=self._generator.device)

    def begin_round(self) -> None:
        """On the host, before each `sample`: draw more if all is used."""
        if self.kind == "pink" and self._used == STRETCH:
            drawn = pink(STRETCH, self._envs * self.size, self._generator)
            self._drawn.copy_(drawn.reshape(self._drawn.shape))
            self._round.zero_()
            self._used = 0
        self._used += self.kind == "pink"

    def sample(self, rows: slice) -> Tensor:
        """For one step of all envs, [envs, size]."""
        if self.kind == "gaussian":
            device = self._generator.device
            return torch.randn(self._envs, self.size, generator=self._generator, device=device)
        noise = self._drawn.index_select(0, self._round)[0]
        self._round.add_(1)
        return noise

    def state(self) -> dict[str, Any]:
        """The noise drawn so far, and how much of it is used."""
        return {"stretch": self._drawn.cpu().numpy().copy(), "rounds": self._used}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from `state()`; noise that was drawn for another kind of envs is drawn anew."""
        if "stretch" in state:
            self._drawn.copy_(torch.from_numpy(np.array(state["stretch"])))
            self._used = state["rounds"]
            self._round.fill_(self._used)
