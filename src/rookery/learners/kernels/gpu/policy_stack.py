"""Many policies of one form side by side on a device: each row of a batch is acted for by the policy of its number.

Rows are sorted by policy and cut into tiles, each of one policy. All tiles are one batched product with the weights of
their policies, so the work hardly depends on how many policies there are. Every shape is fixed, and nothing is read
back: a call can be part of a CUDA graph.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from rookery.learners.heads import BernoulliHead, CategoricalHead, GaussianHead, Head, MultiCategoricalHead
from rookery.learners.networks import ACTIVATIONS, MLP
from rookery.learners.normalize import CLIP
from rookery.learners.observations import split
from rookery.learners.policy import Policy

TILE, CPU_TILE = 256, 16  # rows
PLAIN_HEADS = (BernoulliHead, CategoricalHead, GaussianHead, MultiCategoricalHead)


class PolicyStack(Protocol):
    """Policies of one form, by number."""

    always_samples: bool  # whether it acts with noise only

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        """Noise for one batch of random actions."""

    def put(self, number: int, policy: Policy) -> None:
        """Copy the weights and normalisers of a policy."""

    def act(self, numbers: Tensor, view: Tensor, mask: Tensor | None, noise: Tensor | None, fixed: Tensor) -> Tensor:
        """Actions in the env's action space for all rows, given what they observe: deterministic where `fixed` is set,
        and everywhere if there is no noise. Of rows without a policy (a number below 0), they mean nothing."""

    def saved(self, number: int) -> dict[str, np.ndarray]:
        """The weights and normalisers of a policy."""

    def load(self, number: int, saved: dict[str, np.ndarray]) -> None:
        """Put back what `saved` returned."""

    def begin(self, rows: Tensor) -> None:
        """New games begin in the rows of this mask."""

    def state(self) -> list[Tensor]:
        """What `act` and `begin` change."""


def make_stack(like: Policy, count: int, num_rows: int) -> PolicyStack:
    """Room for `count` policies of the form of `like`, for so many rows."""
    return PerceptronStack(like, count, num_rows) if is_plain_perceptron(like) else ModuleStack(like, count, num_rows)


def is_plain_perceptron(policy: Policy) -> bool:
    """Whether a policy's actor is a perceptron over one vector, with a head that adds noise to its outputs."""
    leaf, encoder = policy.leaves[0], getattr(policy, "encoder", None)
    one_vector = len(policy.leaves) == 1 and leaf.kind == "vector" and len(leaf.shape) == 1 and not policy.memory_size
    if not one_vector or encoder is None or getattr(encoder, "is_trained", True):
        return False
    return type(getattr(policy, "head", None)) in PLAIN_HEADS and type(getattr(policy, "actor", None)) is MLP


class PerceptronStack:
    """Policies whose actors are perceptrons over one vector."""

    always_samples = False

    def __init__(self, like: Policy, count: int, num_rows: int) -> None:
        actor: Any = like.actor
        self.head = cast(Head, deepcopy(like.head))
        device = actor.layer_params[0][0].device
        self._count, self._rows = count, num_rows
        self._activation = ACTIVATIONS[actor.activation_name]
        self._layers = [  # transposed weights, and biases
            (torch.zeros(count, *weight.shape[::-1], device=device), torch.zeros(count, 1, *bias.shape, device=device))
            for weight, bias in actor.layer_params
        ]
        width, self._normalises = self._layers[0][0].shape[1], like.encoder.norm is not None
        self._shift, self._scale = (
            torch.zeros(count, 1, width, device=device),
            torch.ones(count, 1, width, device=device),
        )
        self._std = torch.ones(count, self.head.noise_size, device=device)
        self._groups = RowGroups(count, num_rows, CPU_TILE if device.type == "cpu" else TILE, device)

    @torch.no_grad()
    def put(self, number: int, policy: Policy) -> None:
        actor, norm = policy.actor, policy.encoder.norm
        for (weights, biases), (weight, bias) in zip(self._layers, actor.layer_params, strict=True):  # type: ignore[union-attr,arg-type]
            weights[number].copy_(weight.T)
            biases[number, 0].copy_(bias)
        if norm is not None:
            self._shift[number, 0].copy_(norm.mean)  # type: ignore[arg-type,union-attr]
            self._scale[number, 0].copy_((norm.variance + norm.floor).rsqrt())  # type: ignore[operator,union-attr]
        if isinstance(policy.head, GaussianHead):
            self._std[number].copy_(policy.head.log_std.exp())

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return self.head.sample_noise(rows, generator=generator)

    def saved(self, number: int) -> dict[str, np.ndarray]:
        return {name: tensor[number].cpu().numpy() for name, tensor in self._tensors().items()}

    def load(self, number: int, saved: dict[str, np.ndarray]) -> None:
        for name, tensor in self._tensors().items():
            tensor[number].copy_(torch.from_numpy(np.array(saved[name])))

    def _tensors(self) -> dict[str, Tensor]:
        named = {f"weight{k}": weight for k, (weight, _) in enumerate(self._layers)}
        named |= {f"bias{k}": bias for k, (_, bias) in enumerate(self._layers)}
        return {**named, "shift": self._shift, "scale": self._scale, "std": self._std}

    @torch.no_grad()
    def act(self, numbers: Tensor, view: Tensor, mask: Tensor | None, noise: Tensor | None, fixed: Tensor) -> Tensor:
        groups = self._groups
        groups.sort(numbers)
        of_tile, features = groups.policy_of_tile, groups.gather(view)
        if self._normalises:
            features = ((features - self._shift[of_tile]) * self._scale[of_tile]).clamp(-CLIP, CLIP)
        *hidden, (last, bias) = self._layers
        for weights, biases in hidden:
            features = self._activation(torch.baddbmm(biases[of_tile], features, weights[of_tile]))
        outputs = groups.scatter(torch.baddbmm(bias[of_tile], features, last[of_tile]))
        if mask is not None:
            outputs = self.head.apply_mask(outputs, mask)
        if noise is not None:
            outputs = outputs + (self._std[numbers.clamp(min=0)] * noise).masked_fill(fixed[:, None], 0.0)
        return self.head.to_env(self.head.mode(outputs))

    def begin(self, rows: Tensor) -> None:
        """Nothing to do: these policies have no memory."""

    def state(self) -> list[Tensor]:
        return []


class RowGroups:
    """Rows in the order of their policies' numbers, in tiles of one policy each."""

    def __init__(self, count: int, num_rows: int, tile: int, device: torch.device) -> None:
        self._tile, self._tiles = tile, -(-num_rows // tile) + count
        self._edges_of = torch.arange(count + 1, device=device)
        self._tile_numbers = torch.arange(self._tiles, device=device)
        self._places, self._rows = torch.arange(tile, device=device), torch.arange(num_rows, device=device)
        self.policy_of_tile = torch.zeros(0)

    def sort(self, numbers: Tensor) -> None:
        """Group the rows by these numbers; those below 0 are in no group."""
        count = len(self._edges_of) - 1
        sorted_numbers, order = torch.sort(torch.where(numbers < 0, count, numbers), stable=True)
        edges = torch.searchsorted(sorted_numbers, self._edges_of)  # where each group begins
        ends = ((edges[1:] - edges[:-1] + self._tile - 1) // self._tile).cumsum(0)  # of its tiles
        starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        self.policy_of_tile = torch.searchsorted(ends, self._tile_numbers, right=True).clamp(max=count - 1)
        first = edges[self.policy_of_tile] + (self._tile_numbers - starts[self.policy_of_tile]) * self._tile
        self._row_of = order[(first[:, None] + self._places).clamp(0, len(self._rows) - 1)]
        rank = torch.empty_like(order).scatter_(0, order, self._rows)
        group = numbers.clamp(0, count - 1).long()
        place = starts[group] * self._tile + rank - edges[group]
        self._place_of = torch.where(numbers < 0, 0, place)

    def gather(self, rows: Tensor) -> Tensor:
        """[rows, ...] as [tiles, rows of a tile, ...]; places without a row hold any."""
        return rows[self._row_of]

    def scatter(self, tiles: Tensor) -> Tensor:
        """The way back."""
        return tiles.flatten(0, 1)[self._place_of]


class ModuleStack:
    """Policies of any form, one after another, each for all rows: the work grows with their number."""

    always_samples = False

    def __init__(self, like: Policy, count: int, num_rows: int) -> None:
        self._policies = [deepcopy(like).eval().requires_grad_(False) for _ in range(count)]
        device = next(like.parameters()).device
        self._memory = torch.zeros(num_rows, like.memory_size, device=device)

    def put(self, number: int, policy: Policy) -> None:
        self._policies[number].load_state_dict(policy.state_dict())

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return self._policies[0].sample_noise(rows, generator)

    def saved(self, number: int) -> dict[str, np.ndarray]:
        return {name: tensor.cpu().numpy() for name, tensor in self._policies[number].state_dict().items()}

    def load(self, number: int, saved: dict[str, np.ndarray]) -> None:
        self._policies[number].load_state_dict({name: torch.from_numpy(np.array(part)) for name, part in saved.items()})

    @torch.no_grad()
    def act(self, numbers: Tensor, view: Tensor, mask: Tensor | None, noise: Tensor | None, fixed: Tensor) -> Tensor:
        memory = self._memory if self._memory.shape[1] else None
        actions, remembered = None, self._memory
        leaves = split(self._policies[0].leaves, view, view.device)
        for number, policy in enumerate(self._policies):
            mine = numbers == number
            theirs, kept = policy.act(leaves, mask, None, memory)
            if noise is not None:
                theirs = torch.where(_like(fixed, theirs), theirs, policy.act(leaves, mask, noise, memory)[0])
            actions = theirs if actions is None else torch.where(_like(mine, theirs), theirs, actions)
            if kept is not None:
                remembered = torch.where(mine[:, None], kept, remembered)
        if memory is not None:
            self._memory.copy_(remembered)
        assert actions is not None
        return actions

    def begin(self, rows: Tensor) -> None:
        self._memory.masked_fill_(rows[:, None], 0.0)

    def state(self) -> list[Tensor]:
        return [self._memory]


def _like(rows: Tensor, values: Tensor) -> Tensor:
    return rows.reshape(-1, *[1] * (values.ndim - 1))
