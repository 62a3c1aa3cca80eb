"""From a network's outputs to actions: one head for each kind of action space.

A head samples by adding noise that was sampled before, for a complete rollout at once, so that acting is one cheap
operation and does not depend on how envs are grouped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from rookery.errors import OptionError
from rookery.learners.action_spaces import action_tree
from rookery.learners.policy import ToActions

FORBIDDEN = -1e9  # a logit that never wins; not -inf, whose product with a probability of 0 is NaN


class Head(nn.Module):
    """What all heads do. Tensors of actions are [batch, *shape], in the head's own numbers; `to_env` translates."""

    outputs: int  # numbers it needs from the net
    noise_size: int  # numbers it needs to sample
    shape: tuple[int, ...]  # of one action
    dtype: torch.dtype = torch.int64

    @property
    def gaussian_columns(self) -> list[int]:
        """Which numbers of its noise are Gaussian: those of continuous actions."""
        return []

    def sample_noise(self, *rows: int, generator: torch.Generator) -> Tensor:
        """Noise for sampling, [*rows, noise]."""
        uniform = torch.rand(*rows, self.noise_size, generator=generator, device=generator.device)
        return self._quantile(uniform.clamp_(1e-10, 1 - 6e-8))

    @staticmethod
    def _quantile(uniform: Tensor) -> Tensor:
        return -torch.log(-torch.log(uniform))  # Gumbel's: the largest logit plus this is a sample

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Random actions."""
        raise NotImplementedError

    def mode(self, outputs: Tensor) -> Tensor:
        """Deterministic actions."""
        raise NotImplementedError

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of actions, [batch]."""
        raise NotImplementedError

    def entropy(self, outputs: Tensor) -> Tensor:
        """The entropy, averaged over the batch."""
        raise NotImplementedError

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        """Outputs under which actions that `mask` forbids are never taken."""
        raise self.no_masks()

    def no_masks(self) -> OptionError:
        """The error of a mask for actions that are not choices."""
        return OptionError(f"action masks need discrete actions; these are {type(self).__name__.lower()}")

    def to_env(self, actions: Tensor) -> Tensor:
        """Actions in the env's action space."""
        return actions

    def numpy_actions(self) -> ToActions | None:
        """The way from outputs and noise to the env's actions in NumPy, for frozen policies; None if there is none."""
        return None


class CategoricalHead(Head):
    """One discrete action."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__()
        self.outputs = self.noise_size = int(space.n)
        self.shape, self.start = (), int(space.start)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + noise).argmax(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return torch.log_softmax(outputs, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        return _categorical_entropy(outputs)

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        return outputs.masked_fill(~mask.reshape(outputs.shape), FORBIDDEN)

    def to_env(self, actions: Tensor) -> Tensor:
        return actions + self.start if self.start else actions

    def numpy_actions(self) -> ToActions:
        start, forbidden = self.start, np.float32(FORBIDDEN)

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            if mask is not None:
                outputs = np.where(mask.reshape(outputs.shape), outputs, forbidden)
            return (outputs if noise is None else outputs + noise).argmax(1) + start

        return to_actions


class MultiCategoricalHead(Head):
    """Several independent discrete actions. Their logits are concatenated."""

    starts: Tensor

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        super().__init__()
        self.sizes = [int(n) for n in space.nvec.ravel()]
        self.outputs = self.noise_size = sum(self.sizes)
        self.shape = space.shape
        self.register_buffer("starts", torch.as_tensor(np.asarray(space.start, np.int64)), persistent=False)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return self.mode(outputs + noise)

    def mode(self, outputs: Tensor) -> Tensor:
        choices = [part.argmax(-1) for part in outputs.split(self.sizes, -1)]
        return torch.stack(choices, -1).reshape(-1, *self.shape)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        columns = actions.reshape(len(actions), -1)
        log_probs = [torch.log_softmax(part, -1) for part in outputs.split(self.sizes, -1)]
        taken = [part.gather(-1, columns[:, k : k + 1]) for k, part in enumerate(log_probs)]
        return torch.cat(taken, -1).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        return torch.stack([_categorical_entropy(part) for part in outputs.split(self.sizes, -1)]).sum()

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        return outputs.masked_fill(~mask.reshape(outputs.shape), FORBIDDEN)

    def to_env(self, actions: Tensor) -> Tensor:
        return actions + self.starts


class BernoulliHead(Head):
    """Any number of binary actions (MultiBinary)."""

    def __init__(self, space: spaces.MultiBinary) -> None:
        super().__init__()
        self.outputs = self.noise_size = int(np.prod(space.shape))
        self.shape = space.shape

    @staticmethod
    def _quantile(uniform: Tensor) -> Tensor:
        return torch.logit(uniform)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return self.mode(outputs + noise)

    def mode(self, outputs: Tensor) -> Tensor:
        return (outputs > 0).long().reshape(-1, *self.shape)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        signs = actions.reshape(outputs.shape) * 2 - 1
        return functional.logsigmoid(outputs * signs).sum(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        on, off = functional.logsigmoid(outputs), functional.logsigmoid(-outputs)
        return -(on.exp() * on + off.exp() * off).sum(-1).mean()

    def to_env(self, actions: Tensor) -> Tensor:
        return actions.to(torch.int8)


class GaussianHead(Head):
    """Continuous actions: a mean from the network, and a standard deviation as a parameter. Actions are clipped to the
    bounds only on the way to the env, so that log-probabilities stay those of the samples."""

    low: Tensor
    high: Tensor
    dtype = torch.float32

    def __init__(self, space: spaces.Box, log_std: float) -> None:
        super().__init__()
        self.outputs = self.noise_size = int(np.prod(space.shape))
        self.shape = space.shape
        self.log_std = nn.Parameter(torch.full((self.outputs,), log_std))
        self.register_buffer("low", torch.as_tensor(space.low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.as_tensor(space.high, dtype=torch.float32), persistent=False)

    @property
    def gaussian_columns(self) -> list[int]:
        return list(range(self.noise_size))

    def sample_noise(self, *rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(*rows, self.noise_size, generator=generator, device=generator.device)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + self.log_std.exp() * noise).reshape(-1, *self.shape)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.reshape(-1, *self.shape)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        distance = (actions.reshape(outputs.shape) - outputs) * (-self.log_std).exp()
        return -0.5 * distance.square().sum(-1) - (self.log_std.sum() + 0.5 * math.log(2 * math.pi) * self.outputs)

    def entropy(self, outputs: Tensor) -> Tensor:
        return self.log_std.sum() + 0.5 * math.log(2 * math.pi * math.e) * self.outputs

    def to_env(self, actions: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(actions, self.low), self.high)

    def numpy_actions(self) -> ToActions:
        low, high, std = (x.detach().cpu().numpy() for x in (self.low, self.high, self.log_std.exp()))
        shape = self.shape

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            if mask is not None:
                raise self.no_masks()
            actions = outputs if noise is None else outputs + std * noise
            return np.minimum(np.maximum(actions.reshape(-1, *shape), low), high)

        return to_actions


def _categorical_entropy(logits: Tensor) -> Tensor:
    log_probs = torch.log_softmax(logits, -1)
    return -(log_probs.exp() * log_probs).sum(-1).mean()


class CompositeHead(Head):
    """Independent parts: log-probabilities and entropies are sums. Its actions are flat vectors (see `ActionTree`), in
    which choices count from 0, also after `to_env`."""

    dtype = torch.float32
    parts: Any  # the heads

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
        return list(zip(self.parts, self._split(outputs), strict=True))

    @property
    def gaussian_columns(self) -> list[int]:
        firsts = [sum(self._noise_sizes[:k]) for k in range(len(self._noise_sizes))]
        return [first + n for first, head in zip(firsts, self.parts, strict=True) for n in head.gaussian_columns]

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


LOG_STD = (-10.0, 2.0)  # bounds of the log of the standard deviation of actions that are squashed by tanh


def squashed_log_prob(raw: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    """Log-probabilities of tanh(raw), [batch].

    The density shrinks by the derivative of tanh, 1 - tanh(x)^2, whose logarithm is 2 (log 2 - x - softplus(-2 x)): in
    that form no precision is lost where tanh comes close to 1.
    """
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    log_derivative = 2.0 * (math.log(2.0) - raw - nn.functional.softplus(-2.0 * raw))
    return (gaussian - log_derivative).sum(-1)
