"""The parameters of all members as rows of one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.execution.select import accelerate


class ParameterStack:
    """Weights, gradients and moments [members, parameters]. The learners' own vectors become rows of it, so that a
    member can be saved, evaluated and changed as a learner of its own at any time."""

    def __init__(self, learners: Sequence[PPO]) -> None:
        self.learners = list(learners)
        first = self.learners[0]
        shape = len(self.learners), first.adam.flat.numel()
        self.flat, self.gradient, *moments = (torch.zeros(shape) for _ in range(4))
        self.moments = moments[0], moments[1]
        for row, learner in enumerate(self.learners):
            learner.adam.move_to(self.flat[row], self.gradient[row], (moments[0][row], moments[1][row]))
            learner.accelerator = accelerate(learner)
        self._starts = _starts(first)

    def __len__(self) -> int:
        return len(self.learners)

    def start(self, parameter: Any) -> int:
        """Where a parameter of the first member begins in its row."""
        return self._starts[id(parameter)]

    def view(self, of: Tensor, parameter: Any) -> Tensor:
        """A parameter of all members, [members, *shape], in a matrix like `flat`."""
        start = self.start(parameter)
        return of[:, start : start + parameter.numel()].view(len(of), *parameter.shape)

    @property
    def steps(self) -> Tensor:
        """How many steps the optimizer of each member has made."""
        return torch.stack([learner.adam.steps for learner in self.learners])

    def set_steps(self, steps: Tensor) -> None:
        """Write them back."""
        for learner, count in zip(self.learners, steps, strict=True):
            learner.adam.steps.copy_(count)


def _starts(learner: PPO) -> dict[int, int]:
    starts, at = {}, 0
    for parameter in learner.adam.parameters:
        starts[id(parameter)] = at
        at += parameter.numel()
    return starts
