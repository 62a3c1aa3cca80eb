"""Prioritised replay (Schaul et al., 2016): transitions with a large TD error are replayed more often."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.learner import Tree
from rookery.learners.offpolicy import OffPolicy
from rookery.learners.sumtree import DeviceSumTree, SumTree, wide_float


class PrioritisedOffPolicy(OffPolicy):
    """Samples transitions in proportion to their priorities if the option `prioritised` is on, else uniformly."""

    tree: SumTree | DeviceSumTree | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.options.prioritised and self.tree is None:
            self.tree = SumTree(self.options.buffer_size)

    def _use_device(self) -> None:
        super()._use_device()
        if self.options.prioritised:
            self.tree = DeviceSumTree(self.options.buffer_size, self.device)
            self._exponent = torch.zeros((), dtype=wide_float(self.device), device=self.device)

    def _added(self, indices: np.ndarray) -> None:
        """New transitions get the largest priority, so that each is replayed soon."""
        if isinstance(self.tree, DeviceSumTree):
            self.tree.set_new(torch.from_numpy(indices).to(self.device))
        elif self.tree is not None:
            self.tree.set(indices, np.full(len(indices), self.tree.largest or 1.0))

    def _written(self, places: Tensor) -> None:
        if isinstance(self.tree, DeviceSumTree):
            self.tree.set_new(places)

    def round_tensors(self) -> list[Tensor]:
        return super().round_tensors() + (self.tree.tensors if isinstance(self.tree, DeviceSumTree) else [])

    def trained_tensors(self) -> list[Tensor]:
        return super().trained_tensors() + (self.tree.tensors if isinstance(self.tree, DeviceSumTree) else [])

    def begin_updates(self) -> None:
        super().begin_updates()
        if isinstance(self.tree, DeviceSumTree):
            self._exponent.fill_(self._importance())

    def _importance(self) -> float:
        """The present exponent of importance weights."""
        start = self.options.importance_exponent
        return start + (1.0 - start) * min(1.0, self.steps / self.options.importance_steps)

    def sample_indices(self) -> tuple[Tensor, Tensor | None]:
        """Indices of transitions, and their importance weights if they are prioritised."""
        size = self.options.batch_size
        if self.tree is None:
            return self.replay.sample_indices(size, self.generator), None
        if isinstance(self.tree, DeviceSumTree):
            uniform = torch.rand(size, dtype=wide_float(self.device), generator=self.generator, device=self.device)
            places = self.tree.sample(uniform)
            return places, self.tree.weights(places, self._exponent)
        indices = self.tree.sample(torch.rand(size, dtype=torch.float64, generator=self.generator).numpy())
        return torch.from_numpy(indices), torch.from_numpy(self.tree.weights(indices, self._importance()))

    def update_priorities(self, indices: Tensor, td_error: Tensor) -> None:
        """The priorities of transitions become |TD error|^priority_exponent."""
        if isinstance(self.tree, DeviceSumTree):
            self.tree.set(indices, (td_error.abs() + self.options.priority_floor) ** self.options.priority_exponent)
        elif self.tree is not None:
            errors = np.abs(td_error.numpy()) + np.float32(self.options.priority_floor)
            self.tree.set(indices.numpy(), errors**self.options.priority_exponent)

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
