"""An update of PPO whose gradients several processes compute, each for the rows that it has.

All of them draw the same shuffles. Of every minibatch each takes the rows of its own envs, and the gradients are summed
in the order of ranks, weighted by the number of rows: the sum is that of one process with all rows, to float tolerance,
and has the same bits everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.learners.algorithms.ppo import METRICS, PPO
from rookery.learners.early_stop import EarlyStop
from rookery.learners.execution.ranks import Ranks
from rookery.learners.execution.shared_rollout import normalised
from rookery.learners.kernels.gpu.shuffle import sample_order

Columns = dict[str, Tensor]  # see `Rollout.columns`


@dataclass(frozen=True)
class OwnRows:
    """The part of a rollout that one process has: the columns of some envs, [steps, envs, ...]."""

    columns: Columns
    envs: slice
    advantages: Tensor  # of all envs, [steps, envs]: they are normalised over complete minibatches


def envs_of(rank: int, size: int, envs: int) -> slice:
    """Those whose rows a process has.

    >>> [envs_of(rank, 3, 7) for rank in range(3)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
    """
    return slice(rank * envs // size, (rank + 1) * envs // size)


class SharedUpdate:
    """One update, in one of the processes. The learner's weights, optimizer, generator, options and schedules must be
    equal in all of them; its generator is on the CPU, wherever it learns."""

    def __init__(self, learner: PPO, ranks: Ranks, rows: OwnRows, minibatches: int) -> None:
        self.learner, self.ranks, self.count = learner, ranks, minibatches
        self._tensors, self._axis = learner.rollout.to_shuffle(rows.columns)
        self._advantages = rows.advantages if self._axis else rows.advantages.flatten()
        self._places = self._own_places(rows)
        self._normalises = learner.options.normalise_advantages
        self._weight = 1.0  # how much of the present minibatch is this process's share

    def _own_places(self, rows: OwnRows) -> Tensor:
        """Where this process has a sample, by its number among all; -1 of those of others."""
        steps, envs = rows.advantages.shape
        places = torch.full((1 if self._axis else steps, envs), -1)
        own = places[:, rows.envs]
        own.copy_(torch.arange(own.numel()).reshape(own.shape))
        return places.flatten()

    def learn(self) -> Tensor:
        """All epochs; returns METRICS."""
        learner, epochs = self.learner, EarlyStop(self.learner.options.target_kl, torch.device("cpu"))
        with self._installed():
            for _ in range(learner.options.epochs):
                for share in self._minibatches():
                    latest = learner.train_step(share, learner.clip) if self._weight else self._step_without_rows()
                if epochs.ends_with(self.ranks.sum_(latest * self._weight)):
                    break
        return epochs.metrics()

    @contextmanager
    def _installed(self) -> Iterator[None]:
        """Meanwhile, gradients are those of all processes, and minibatches come with normalised advantages."""
        learner, before = self.learner, self.learner.options
        learner.options = before.model_copy(update={"normalise_advantages": False})
        learner.adam.on_gradient = lambda gradient: self.ranks.sum_(gradient.mul_(self._weight))
        try:
            yield
        finally:
            learner.options, learner.adam.on_gradient = before, None

    def _minibatches(self) -> Iterator[Columns]:
        """This process's share of each."""
        total, axis, device = len(self._places), self._axis, self.learner.device
        order = sample_order(total, self.learner.generator)
        for numbers in order.split(-(-total // min(self.count, total))):
            places = self._places[numbers]
            own = places[places >= 0]
            self._weight = len(own) / len(numbers)
            rows = own.to(device)
            share = {name: value.index_select(axis, rows) for name, value in self._tensors.items()}
            if self._normalises:
                of_all = self._advantages.index_select(axis, numbers.to(device))
                share["advantages"] = normalised(share["advantages"], of_all)
            yield share

    def _step_without_rows(self) -> Tensor:
        """In a minibatch of which others have all rows."""
        adam = self.learner.adam
        adam.gradient.zero_()
        adam.step(self.learner.options.max_grad_norm)
        return torch.zeros(len(METRICS), device=self.learner.device)
