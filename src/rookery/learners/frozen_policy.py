"""Frozen copies of policies, to play with: later learning does not change them, and they have no state of their own.

Perceptrons run in one compiled pass, on a CPU, row by row: the result for a row does not depend on the other rows, and
a single row takes 10 us instead of 60. All others are copied and run in torch, whose products may round differently in
batches of another size.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
import torch

from rookery.learners.agent import FrozenActor, Policy
from rookery.learners.fast.perceptron import KINDS, PackedMLP
from rookery.learners.networks import Encoder
from rookery.learners.normalize import CLIP
from rookery.learners.observations import split


class FrozenPolicy(Protocol):
    """A policy that no longer changes."""

    def __call__(
        self, observations: Any, noise: np.ndarray | None = None, memory: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions in the env's action space, deterministic unless there is noise (see `Policy.sample_noise`); and the
        next memory of a recurrent policy."""


def freeze(policy: Policy) -> FrozenPolicy:
    """A frozen copy of a policy's present weights."""
    leaf = policy.leaves[0]
    one_vector = len(policy.leaves) == 1 and leaf.kind == "vector" and len(leaf.shape) == 1 and not policy.memory_size
    plain = one_vector and not getattr(policy.encoder, "is_trained", False)
    actor = policy.frozen_actor() if plain else None
    if actor is None or actor.activation not in KINDS:
        return TorchFrozenPolicy(policy)
    return PackedPolicy(policy.encoder, actor)  # type: ignore[arg-type]


class PackedPolicy:
    """A perceptron over one vector."""

    def __init__(self, encoder: Encoder, actor: FrozenActor) -> None:
        layers = [(weight.detach().cpu(), bias.detach().cpu()) for weight, bias in actor.layers]
        self._net, self._to_actions = PackedMLP(layers, KINDS[actor.activation]), actor.to_actions
        norm = encoder.norm
        if norm is not None:
            self._shift = norm.mean.cpu().float().numpy()
            self._scale = (norm.variance + 1e-8).rsqrt().cpu().float().numpy()
        self._normalises = norm is not None

    def __call__(
        self, observations: Any, noise: np.ndarray | None = None, memory: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        features = np.ascontiguousarray(observations, np.float32)
        if self._normalises:
            features = np.minimum(np.maximum((features - self._shift) * self._scale, -CLIP), CLIP)
        return self._to_actions(self._net(features), noise), None


class TorchFrozenPolicy:
    """Any policy, as a copy in torch."""

    def __init__(self, policy: Policy) -> None:
        self._policy = copy.deepcopy(policy).eval()
        self._device = next(policy.parameters()).device

    @torch.no_grad()
    def __call__(
        self, observations: Any, noise: np.ndarray | None = None, memory: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        leaves = split(self._policy.leaves, observations, self._device)
        given = (None if x is None else torch.as_tensor(x, device=self._device) for x in (noise, memory))
        actions, next_memory = self._policy.act(leaves, None, *given)
        return actions.cpu().numpy(), None if next_memory is None else next_memory.cpu().numpy()
