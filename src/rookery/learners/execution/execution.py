"""What all executions of learners have in common: how training's calls reach an algorithm."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rookery.learners.learner import Tree
from rookery.learners.observations import are_tensors


class Execution:
    """Keeps what a learner has seen, says when an update is due, and makes it by the methods of the algorithm. The
    methods that `Learner` passes on are documented there."""

    accelerated_by: tuple[str, ...] | None = None  # the names of accelerators that suit it; None for all
    shares = False  # whether other processes have a share of every gradient

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    def to_env(self, observations: Any, actions: Tensor) -> Any:
        """Actions for the env, as tensors where observations are."""
        agent = self.learner.agent
        return agent.nested(actions) if are_tensors(observations) else agent.as_arrays(actions)

    def zero_leaves(self, rows: int) -> list[Tensor]:
        """Observations of zeros, for `workload`."""
        return [leaf.blank(rows, self.learner.device) for leaf in self.learner.leaves]

    def check_size(self, num_envs: int) -> None:
        """Refuse a number of envs."""

    def accept(self, state: Tree) -> Tree:
        """What of a state is to be loaded; refuses one that does not fit, before anything is changed."""
        return state

    def options_changed(self) -> None:
        """Follow `Learner.adjust`."""
