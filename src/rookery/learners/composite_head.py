"""The head of Dict and Tuple actions, made of the heads of their parts; and the choice of a head for any space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import OptionError
from rookery.learners.action_tree import action_tree
from rookery.learners.heads import BernoulliHead, CategoricalHead, GaussianHead, Head, MultiCategoricalHead


class CompositeHead(Head):
    """Independent parts: log-probabilities and entropies are sums. Its actions are flat vectors (see `ActionTree`), in
    which choices count from 0, also after `to_env`."""

    dtype = torch.float32

    def __init__(self, heads: Sequence[Head], choices: Sequence[int]) -> None:
        """`choices` says how many entries a mask has for each part."""
        super().__init__()
        self.parts, self._choices = nn.ModuleList(heads), list(choices)
        self._output_sizes, self._noise_sizes = [h.outputs for h in heads], [h.noise_size for h in heads]
        self._widths = [int(np.prod(h.shape, dtype=np.int64)) for h in heads]
        self.outputs, self.noise_size = sum(self._output_sizes), sum(self._noise_sizes)
        self.shape = (sum(self._widths),)

    def with_outputs(self, outputs: Tensor) -> list[tuple[Head, Tensor]]:
        """The head of each part, with its share of the network's outputs."""
        return list(zip(self.parts, self._split(outputs), strict=True))  # type: ignore[arg-type]

    def sample_noise(self, *rows: int, generator: torch.Generator) -> Tensor:
        return torch.cat([part.sample_noise(*rows, generator=generator) for part in self.parts], -1)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        noises = noise.split(self._noise_sizes, -1)
        return self._joined([h.sample(o, n) for h, o, n in zip(self.parts, self._split(outputs), noises, strict=True)])

    def mode(self, outputs: Tensor) -> Tensor:
        return self._joined([h.mode(o) for h, o in zip(self.parts, self._split(outputs), strict=True)])

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        parts = zip(self.parts, self._split(outputs), self._of_parts(actions), strict=True)
        return torch.stack([head.log_prob(o, a) for head, o, a in parts]).sum(0)

    def entropy(self, outputs: Tensor) -> Tensor:
        return torch.stack([h.entropy(o) for h, o in zip(self.parts, self._split(outputs), strict=True)]).sum()

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        if not any(self._choices):
            raise self.no_masks()
        masks = mask.reshape(-1, sum(self._choices)).split(self._choices, -1)
        masked = zip(self.parts, self._split(outputs), masks, strict=True)
        return torch.cat([head.apply_mask(o, m) if m.shape[-1] else o for head, o, m in masked], -1)

    def no_masks(self) -> OptionError:
        return OptionError("action masks need discrete actions; no part of these is Discrete or MultiDiscrete")

    def to_env(self, actions: Tensor) -> Tensor:
        """Only continuous parts change: they are clipped to their bounds."""
        parts = zip(self.parts, self._of_parts(actions), strict=True)
        return self._joined([head.to_env(a) if isinstance(head, GaussianHead) else a for head, a in parts])

    def _split(self, outputs: Tensor) -> Sequence[Tensor]:
        return outputs.split(self._output_sizes, -1)

    def _of_parts(self, actions: Tensor) -> list[Tensor]:
        """Flat actions as each part's own."""
        columns = zip(self.parts, actions.split(self._widths, -1), strict=True)
        return [part.reshape(-1, *head.shape).to(head.dtype) for head, part in columns]

    def _joined(self, parts: list[Tensor]) -> Tensor:
        flat = [part.reshape(-1, width).float() for part, width in zip(parts, self._widths, strict=True)]
        return torch.cat(flat, -1)


def head_for(space: spaces.Space, log_std: float) -> Head:
    """The head that fits an action space."""
    if isinstance(space, spaces.Discrete):
        return CategoricalHead(space)
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategoricalHead(space)
    if isinstance(space, spaces.MultiBinary):
        return BernoulliHead(space)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return GaussianHead(space, log_std)
    tree = action_tree(space)
    if tree is not None and tree.parts:
        heads = [head_for(part.space, log_std) for part in tree.parts]
        return CompositeHead(heads, [part.choices for part in tree.parts])
    raise OptionError(
        f"PPO cannot act in {space}; it takes Discrete, MultiDiscrete, MultiBinary and Box of floats, alone or in a "
        "Dict or Tuple"
    )
