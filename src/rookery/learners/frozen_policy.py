"""The forward pass of acting: what it returns for a row does not depend on the other rows, nor on how many there are.

Episodes come out the same, bit for bit, whether they are played alone or side by side. Perceptrons run in one compiled
pass, on a CPU, row by row: a single row takes 10 us instead of 60. All others run in torch, whose products round
differently in batches of another size, so they get batches of one size: tiles, of which the last is filled up.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.cpu_threads import one_thread
from rookery.learners.encoders import Encoder
from rookery.learners.normalize import CLIP
from rookery.learners.observations import split
from rookery.learners.policy import FrozenActor, Policy
from rookery.learners.shared_nets import joined

# Rows of a tile. With 32 rows on one thread, libraries treat all rows alike: with fewer rows, or rows divided among
# threads, some are computed by other code than others. A row of images takes so long that filling up would be waste:
# each is computed alone. On a GPU the number hardly matters.
TILE, IMAGE_TILE, CUDA_TILE = 32, 1, 256


def freeze(policy: Policy) -> FrozenPolicy:
    """A frozen copy of a policy's present weights: later learning does not change it."""
    return _packed(policy) or TiledPolicy(copy.deepcopy(policy).eval())


def forward_pass(policy: Policy) -> FrozenPolicy:
    """As `freeze`, without a copy where that would be large: to be used before the weights change."""
    on_cpu = _device(policy).type == "cpu"
    return (_packed(policy) if on_cpu else None) or TiledPolicy(policy)


def _packed(policy: Policy) -> PackedPolicy | None:
    """A policy that is a perceptron over one vector, with a copy of its weights; None for all others."""
    leaf, encoder = policy.leaves[0], getattr(policy, "encoder", None)
    one_vector = len(policy.leaves) == 1 and leaf.kind == "vector" and len(leaf.shape) == 1 and not policy.memory_size
    if not one_vector or encoder is None or getattr(encoder, "is_trained", False):
        return None
    from rookery.learners.kernels.cpu.perceptron import KINDS  # imports Numba, which agents on a GPU do without

    actor = policy.frozen_actor()
    return None if actor is None or actor.activation not in KINDS else PackedPolicy(encoder, actor)


class PackedPolicy:
    """A perceptron over one vector. Actions are deterministic unless there is noise (see `Policy.sample_noise`); with
    them comes the next memory of a recurrent policy."""

    def __init__(self, encoder: Encoder, actor: FrozenActor) -> None:
        from rookery.learners.kernels.cpu.perceptron import KINDS, PackedMLP

        layers = [(weight.detach().cpu(), bias.detach().cpu()) for weight, bias in actor.layers]
        self.net, self._to_actions = PackedMLP(layers, KINDS[actor.activation]), actor.to_actions
        self._columns = actor.columns
        norm = encoder.norm
        if norm is not None:
            self._shift = norm.mean.cpu().float().numpy()
            self._scale = (norm.variance + 1e-8).rsqrt().cpu().float().numpy()
        self.normalises = norm is not None

    def __call__(
        self,
        observations: Any,
        noise: np.ndarray | None = None,
        memory: np.ndarray | None = None,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        features = np.ascontiguousarray(observations, np.float32)
        if self.normalises:
            features = np.minimum(np.maximum((features - self._shift) * self._scale, -CLIP), CLIP)
        outputs = self.net(features) if self._columns is None else self._shared(features, self._columns)
        if mask is None:
            return self._to_actions(outputs, noise), None
        return self._to_actions(outputs, noise, mask), None

    def _shared(self, features: np.ndarray, columns: np.ndarray) -> np.ndarray:
        assets = self.net(features[:, columns].reshape(-1, columns.shape[1]))
        return joined(assets.reshape(len(features), len(columns), -1))

    def on_tensors(
        self, leaves: list[Tensor], noise: Tensor | None, memory: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        given = (None if x is None else x.cpu().numpy() for x in (noise, memory, mask))
        actions, _ = self(leaves[0].cpu().numpy(), *given)
        return torch.from_numpy(np.ascontiguousarray(actions)).to(leaves[0].device), None


class TiledPolicy:
    """Any policy, in torch, in tiles of a fixed number of rows."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._device = policy, _device(policy)
        has_images = any(leaf.kind == "image" for leaf in policy.leaves)
        self.tile = CUDA_TILE if self._device.type != "cpu" else IMAGE_TILE if has_images else TILE

    def __call__(
        self,
        observations: Any,
        noise: np.ndarray | None = None,
        memory: np.ndarray | None = None,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        leaves = split(self._policy.leaves, observations, self._device)
        given = (None if x is None else torch.as_tensor(x, device=self._device) for x in (noise, memory, mask))
        actions, remembered = self.on_tensors(leaves, *given)
        return actions.cpu().numpy(), None if remembered is None else remembered.cpu().numpy()

    @torch.no_grad()
    def on_tensors(
        self, leaves: list[Tensor], noise: Tensor | None, memory: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        rows, tile = len(leaves[0]), self.tile
        results = []
        with one_thread() if tile == TILE else nullcontext():
            for start in range(0, max(rows, 1), tile):
                cut = [_filled_tile(part, start, tile) for part in leaves]
                some = (None if x is None else _filled_tile(x, start, tile) for x in (mask, noise, memory))
                results.append(self._policy.act(cut, *some))
        actions = torch.cat([part for part, _ in results])[:rows]
        memories = [part for _, part in results if part is not None]
        return actions, torch.cat(memories)[:rows] if memories else None


FrozenPolicy = PackedPolicy | TiledPolicy


def _filled_tile(values: Tensor, start: int, tile: int) -> Tensor:
    """The rows of a tile; copies of the last row fill it up, which is a possible observation, unlike zeros."""
    part = values[start : start + tile]
    missing = tile - len(part)
    return torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing and len(part) else part


def _device(policy: Policy) -> torch.device:
    return next(policy.parameters()).device
