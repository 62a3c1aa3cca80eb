"""A rollout of which each process holds its own envs, learned from as one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from rookery.learners.execution.ranks import Ranks
from rookery.learners.kernels.gpu.shuffle import sample_order
from rookery.learners.rollout import Rollout


class SharedRollout(Rollout):
    """The envs of this process. `minibatches` joins the rollouts of all processes, shuffles them as one process with
    all envs would, and yields this process's share of each minibatch."""

    def __init__(self, *args: Any, ranks: Ranks) -> None:
        super().__init__(*args)
        self.ranks = ranks
        self.normalises = False  # whether advantages are shifted and scaled by the moments of a complete minibatch
        self.weight = 1.0  # how much of the latest minibatch is this process's share
        self._joined: tuple[dict[str, Tensor], int] | None = None  # of all processes, for the epochs of an update

    def minibatches(
        self, samples: dict[str, Tensor], count: int, generator: torch.Generator
    ) -> Iterator[dict[str, Tensor]]:
        tensors, axis = self._join(samples)
        total = next(iter(tensors.values())).shape[axis]
        order = sample_order(total, generator)
        for rows in order.split(-(-total // min(count, total))):
            first, end = (rank * len(rows) // self.ranks.size for rank in (self.ranks.rank, self.ranks.rank + 1))
            self.weight = (end - first) / len(rows)
            share = {name: value.index_select(axis, rows[first:end]) for name, value in tensors.items()}
            if self.normalises:
                share["advantages"] = normalised(share["advantages"], tensors["advantages"].index_select(axis, rows))
            yield share

    def _join(self, samples: dict[str, Tensor]) -> tuple[dict[str, Tensor], int]:
        """The rollouts of all processes, and the axis along which they are shuffled."""
        if self._joined is None:
            tensors = {name: self.ranks.join(value, 1) for name, value in self.columns(samples).items()}
            self._joined = self.to_shuffle(tensors)
        return self._joined

    @contextmanager
    def joined(self, normalises: bool) -> Iterator[None]:
        """Within it, an update learns from the present rollouts of all processes."""
        self.normalises = normalises
        try:
            yield
        finally:
            self._joined = None


def normalised(advantages: Tensor, of_all: Tensor) -> Tensor:
    """A share of a minibatch's advantages, shifted and scaled by the moments of them all."""
    if of_all.numel() < 2:
        return advantages
    return (advantages - of_all.mean()) / (of_all.std() + 1e-8)
