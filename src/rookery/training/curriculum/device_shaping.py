"""Shaped rewards on a device: `Phases.shaping_weights`, by the episodes that the device has counted."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.kernel.cuda_runtime import DeviceArrays
from rookery.training.curriculum.phases import Phases


class ShapingWeights:
    """The weights of infos in the rewards of each env, which stay the same for an episode."""

    def __init__(self, phases: Phases, num_envs: int, device: torch.device) -> None:
        self._keys = phases.shaped
        self.weights = torch.zeros(num_envs, len(self._keys), device=device)
        self._episodes = torch.zeros((), dtype=torch.float64, device=device)  # of the phase
        self._most = torch.zeros((), dtype=torch.float64, device=device)
        size = len(self._keys)
        self._start, self._change, self._hold, self._fall = torch.zeros(4, size, dtype=torch.float64, device=device)

    def begin_phase(self, phases: Phases) -> None:
        """Take the numbers of the current phase."""
        phase = phases.current
        self._episodes.fill_(phases.episodes)
        self._most.fill_(math.inf if phase.episodes is None else phase.episodes)
        rows = [(0.0, 0.0, 0.0, 0.0)] * len(self._keys)
        for k, key in enumerate(self._keys):
            shaping = phase.shaping.get(key)
            if shaping is not None:
                final = shaping.start if shaping.final is None else shaping.final
                rows[k] = (shaping.start, final - shaping.start, shaping.hold, shaping.fall)
        columns = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4).T
        for mine, values in zip((self._start, self._change, self._hold, self._fall), columns, strict=True):
            mine.copy_(values)

    def count(self, ended: Tensor) -> None:
        """Count the episodes that have ended."""
        if self._keys:
            self._episodes.add_(ended.sum())

    def begin(self, rows: Tensor) -> None:
        """Episodes begin in these rows, with the present weights."""
        if not self._keys:
            return
        past = torch.minimum(self._episodes, self._most) - self._hold
        share = torch.where(self._fall > 0, (past / self._fall.clamp(min=1.0)).clamp(max=1.0), 1.0)
        present = self._start + torch.where(past > 0, self._change * share, 0.0)
        self.weights.copy_(torch.where(rows[:, None], present.float(), self.weights))

    def shaped(self, rewards: Tensor, env_arrays: DeviceArrays, ended: Tensor) -> Tensor:
        """Rewards plus weighted infos; those of an episode's last step are its final ones."""
        for k, key in enumerate(self._keys):
            if key in env_arrays.world.info:
                values = torch.where(ended, env_arrays.field("final_infos", key), env_arrays.field("infos", key))
                rewards = rewards + self.weights[:, k] * values
        return rewards

    def state(self) -> list[Tensor]:
        """What steps change."""
        return [self.weights, self._episodes]
