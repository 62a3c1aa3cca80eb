"""Prioritised replay (Schaul et al., 2016): transitions with a large TD error are replayed more often."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.learner import Tree
from rookery.learners.offpolicy import OffPolicy
from rookery.learners.sumtree import SumTree


class PrioritisedOffPolicy(OffPolicy):
    """Samples transitions in proportion to their priorities if the option `prioritised` is on, else uniformly."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tree = SumTree(self.options.buffer_size) if self.options.prioritised else None

    def _added(self, indices: np.ndarray) -> None:
        """New transitions get the largest priority, so that each is replayed soon."""
        if self.tree is not None:
            self.tree.set(indices, np.full(len(indices), self.tree.largest or 1.0))

    def sample_indices(self) -> tuple[Tensor, Tensor | None]:
        """Indices of transitions, and their importance weights if they are prioritised."""
        size = self.options.batch_size
        if self.tree is None:
            return self.replay.sample_indices(size, self.generator), None
        uniform = torch.rand(size, dtype=torch.float64, generator=self.generator, device=self.device).cpu().numpy()
        indices = self.tree.sample(uniform)
        start = self.options.importance_exponent
        exponent = start + (1.0 - start) * min(1.0, self.steps / self.options.importance_steps)
        weights = torch.from_numpy(self.tree.weights(indices, exponent)).to(self.device)
        return torch.from_numpy(indices).to(self.device), weights

    def update_priorities(self, indices: Tensor, td_error: Tensor) -> None:
        """The priorities of transitions become |TD error|^priority_exponent."""
        if self.tree is not None:
            errors = np.abs(td_error.cpu().numpy()) + np.float32(self.options.priority_floor)
            self.tree.set(indices.cpu().numpy(), errors**self.options.priority_exponent)

    def clear_replay(self) -> None:
        super().clear_replay()
        if self.tree is not None:
            self.tree.load(np.zeros(0))

    def state(self, replay: bool = True) -> Tree:
        if self.tree is None or not replay:
            return super().state(replay)
        return super().state(replay) | {"priorities": self.tree.priorities(slice(0, self.replay.size))}

    def load(self, state: Tree) -> None:
        super().load(state)
        if self.tree is not None:
            self.tree.load(state.get("priorities", np.zeros(0)))
