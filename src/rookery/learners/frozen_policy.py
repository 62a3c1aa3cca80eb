"""Policies as they are now, to play with: later learning does not change them, and nothing is remembered of a batch.

Perceptrons are asked through one compiled pass, on a CPU, row by row: what comes out for a row does not depend on the
rows beside it, and a single row takes 10 us instead of 60. All others are copied and asked through torch, whose
products may round differently in batches of another size.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rookery.learners.agent import Policy
from rookery.learners.dqn import QPolicy
from rookery.learners.fast.perceptron import KINDS, PackedMLP
from rookery.learners.heads import CategoricalHead, GaussianHead
from rookery.learners.networks import ACTIVATIONS, MLP, Encoder
from rookery.learners.normalize import CLIP
from rookery.learners.observations import split
from rookery.learners.ppo import ActorCritic
from rookery.learners.qnet import QNet
from rookery.learners.sac import LOG_STD, SACPolicy

Layers = Sequence[tuple[Tensor, Tensor]]
Finish = Callable[[np.ndarray, np.ndarray | None], np.ndarray]  # a net's outputs, with noise or without, to actions
KIND_OF = {ACTIVATIONS[name]: kind for name, kind in KINDS.items()}


class Frozen(Protocol):
    """A policy that no longer changes."""

    def __call__(
        self, observations: Any, noise: np.ndarray | None = None, memory: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Actions as envs want them, the best ones unless there is noise (see `Policy.draw`); and what a recurrent
        policy will remember."""


def freeze(policy: Policy) -> Frozen:
    """A policy as it is now."""
    parts = _perceptron(policy)
    return Copied(policy) if parts is None else Compiled(policy.encoder, *parts)  # type: ignore[arg-type]


class Compiled:
    """A perceptron over one vector."""

    def __init__(self, encoder: Encoder, layers: Layers, kind: int, finish: Finish) -> None:
        self._net = PackedMLP([(weight.detach().cpu(), bias.detach().cpu()) for weight, bias in layers], kind)  # type: ignore[misc]
        self._finish, norm = finish, encoder.norm
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
        return self._finish(self._net(features), noise), None


class Copied:
    """Any policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = copy.deepcopy(policy).eval()
        self._device = next(policy.parameters()).device

    @torch.no_grad()
    def __call__(
        self, observations: Any, noise: np.ndarray | None = None, memory: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        leaves = split(self._policy.leaves, observations, self._device)
        given = (None if x is None else torch.as_tensor(x, device=self._device) for x in (noise, memory))
        actions, remembered = self._policy.act(leaves, None, *given)
        return actions.cpu().numpy(), None if remembered is None else remembered.cpu().numpy()


def _perceptron(policy: Policy) -> tuple[Layers, int, Finish] | None:
    """The layers, activation and head of a policy that is nothing but a perceptron over one vector."""
    leaf = policy.leaves[0]
    if len(policy.leaves) > 1 or leaf.kind != "vector" or len(leaf.shape) != 1 or policy.memory_size:
        return None
    net: MLP | QNet
    if isinstance(policy, ActorCritic) and isinstance(policy.head, GaussianHead):
        net, finish = policy.actor, _gaussian(policy.head)
    elif isinstance(policy, ActorCritic) and isinstance(policy.head, CategoricalHead):
        net, finish = policy.actor, _categorical(policy.head)
    elif isinstance(policy, SACPolicy):
        net, finish = policy.net, _squashed(policy)
    elif isinstance(policy, QPolicy):
        net, finish = policy.net, _greedy(policy)
    else:
        return None
    kind = KIND_OF.get(net.activation)
    return None if kind is None else (_layers_of_q(net) if isinstance(net, QNet) else _layers(net), kind, finish)


def _layers(net: MLP) -> Layers:
    return [(layer.weight, layer.bias) for layer in net.layers]  # type: ignore[misc]


@torch.no_grad()
def _layers_of_q(net: QNet) -> Layers:
    """Value and advantages of a dueling net are summed up by its last layer, as they are linear in what it sees."""
    hidden = [(layer.weight, layer.bias) for layer in net.hidden]
    weight, bias = net.advantage.weight, net.advantage.bias
    if net.value is not None:
        rows = len(bias)
        weight = torch.cat([net.value.weight.expand(rows, -1), net.less_mean @ weight], 1)
        bias = net.value.bias + net.less_mean @ bias
    return [*hidden, (weight, bias)]  # type: ignore[list-item]


def _gaussian(head: GaussianHead) -> Finish:
    low, high, spread, shape = _array(head.low), _array(head.high), _array(head.log_std.exp()), head.shape

    def finish(outputs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        actions = outputs if noise is None else outputs + spread * noise
        return np.minimum(np.maximum(actions.reshape(-1, *shape), low), high)

    return finish


def _categorical(head: CategoricalHead) -> Finish:
    start = head.start
    return lambda outputs, noise: (outputs if noise is None else outputs + noise).argmax(1) + start


def _squashed(policy: SACPolicy) -> Finish:
    bias, scale = _array(policy.action_bias), _array(policy.action_scale)
    shape, size = policy.shape, policy.size

    def finish(outputs: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        raw = outputs[:, :size]
        if noise is not None:
            raw = raw + np.exp(np.clip(outputs[:, size:], *LOG_STD)) * noise
        return np.tanh(raw).reshape(-1, *shape) * scale + bias

    return finish


def _greedy(policy: QPolicy) -> Finish:
    start, epsilon = policy.start, policy.epsilon

    def finish(values: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        if noise is not None:
            values = np.where(noise[:, :1] < epsilon, noise[:, 1:], values)
        return values.argmax(1) + start

    return finish


def _array(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy()
