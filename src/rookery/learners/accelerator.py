"""The interface of accelerators: faster code for parts of a learner, equal to its plain code to float tolerance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor


class Accelerator:
    """Faster code for some methods of an algorithm, and for steps of its execution.

    This class accelerates nothing. A subclass names in `replaces` the methods of the algorithm that its code stands
    for; those of them that it defines take their place. The methods below belong to the execution, which runs its plain
    code where they return None. `rookery.learners.execution.choose` lists the subclasses.
    """

    replaces: tuple[str, ...] = ()
    stores_values = False  # whether the rollout's `values` are filled while acting
    acts_by_row = False  # whether `explore` computes each row alone: it is the same in a batch of another size

    def __init__(self, learner: Any) -> None:
        """`learner` is complete when its accelerator is made: networks, optimizer and storage exist."""
        self.learner = learner

    @classmethod
    def supports(cls, learner: Any) -> bool:
        """Whether it can serve this learner, by its networks, its spaces and its device."""
        return True

    def invalidate(self) -> None:
        """The weights have changed other than by a gradient step: derived copies of them are stale."""

    def use_threads(self, threads: int) -> bool:
        """Compute on so many threads; False means that it has no threads of its own, and torch's are set."""
        return False

    def borrow_threads(self, lender: Accelerator) -> None:
        """Compute on the threads of another learner in this process, which waits meanwhile: two teams of threads would
        take the cores from each other."""

    def explore(self, observations: Any, rows: slice, mask: np.ndarray | None) -> np.ndarray | None:
        """As `Learner.explore`: actions for the envs in `rows`, stored as the learner stores them."""
        return None

    def record(self, rows: slice, step: Any) -> bool:
        """As `Learner.record`, for a `StepBatch` of tensors: whether it has stored the step in the rollout."""
        return False

    def flush(self) -> None:
        """Store what `record` has kept back for the next call of `explore`: the rollout is to be read now."""

    def can_roll(self, num_envs: int) -> bool:
        """Whether a compiled loop can collect rollouts of so many envs with `acting_plan`."""
        return False

    def acting_plan(self) -> Any:
        """The actor for a compiled loop: a `PPOPlan` with the present weights."""
        raise NotImplementedError

    def update(self, clip: Any) -> Tensor | None:
        """A whole update of PPO on its full rollout: targets, epochs and minibatches. Returns its metrics in the order
        of `ppo.METRICS`, without waiting for the device. `clip` is the range of ratios, on a GPU as a tensor."""
        return None

    def workload(self) -> Callable[[], None] | None:
        """As `Learner.workload`."""
        return None
