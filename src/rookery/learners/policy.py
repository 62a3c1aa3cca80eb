"""What a learner's acting network provides: `Policy`, with its form for acting without torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import SpaceError
from rookery.learners.learner_spec import Options
from rookery.learners.observations import Leaf, leaves_of


class ToActions(Protocol):
    """The way from a network's outputs to the env's actions, in NumPy."""

    def __call__(
        self, outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
    ) -> np.ndarray:
        """Deterministic unless there is noise; `mask` [rows, actions] allows some actions only."""


class FrozenActor(NamedTuple):
    """The actor of a policy that is a perceptron over one vector, for acting without torch."""

    layers: Sequence[tuple[Tensor, Tensor]]  # weights and biases
    activation: str
    to_actions: ToActions
    columns: np.ndarray | None = None  # with `share_weights`: what it reads of the vector for each asset


class Policy(nn.Module):
    """The networks that choose actions, with their normalisers. Each learner has its own."""

    leaves: list[Leaf]
    options: Options
    memory_size: int = 0  # size of a recurrent policy's memory per env

    @abstractmethod
    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Actions in the env's action space, deterministic unless there is noise; and the next memory."""

    @abstractmethod
    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        """Noise for one batch of random actions."""

    def frozen_actor(self) -> FrozenActor | None:
        """Its actor as a perceptron, if it is one over the (normalised) observation; else None."""
        return None


def make_leaves(space: spaces.Space) -> list[Leaf]:
    """The leaves of an observation space, of which there must be some."""
    leaves = leaves_of(space)
    if not leaves:
        raise SpaceError(f"there is nothing to observe in {space}")
    return leaves
