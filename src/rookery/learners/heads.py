"""From a net's outputs to actions: one head for each kind of action space.

A head samples by adding noise that was drawn beforehand, for a whole rollout at once, so that acting is one cheap
operation and does not depend on how envs are grouped.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from rookery.errors import OptionError
from rookery.learners.fast.ppo_loss import Terms, categorical_grads, gaussian_grads

Loss = tuple[bool, float, float]  # whether advantages are normalised, the clip range, the weight of the entropy

FORBIDDEN = -1e9  # a logit that never wins; not -inf, whose product with a probability of 0 is NaN


class Head(nn.Module):
    """What all heads do. Tensors of actions are [batch, *shape], in the head's own numbers; `to_env` translates."""

    outputs: int  # numbers it needs from the net
    noise: int  # numbers it needs to sample
    shape: tuple[int, ...]  # of one action
    dtype: torch.dtype = torch.int64

    def sample_noise(self, *rows: int, generator: torch.Generator) -> Tensor:
        """Noise for sampling, [*rows, noise]."""
        uniform = torch.rand(*rows, self.noise, generator=generator, device=generator.device)
        return self._quantile(uniform.clamp_(1e-10, 1 - 6e-8))

    @staticmethod
    def _quantile(uniform: Tensor) -> Tensor:
        return -torch.log(-torch.log(uniform))  # Gumbel's: the largest logit plus this is a sample

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Random actions."""
        raise NotImplementedError

    def mode(self, outputs: Tensor) -> Tensor:
        """The deterministic actions."""
        raise NotImplementedError

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities of actions, [batch]."""
        raise NotImplementedError

    def entropy(self, outputs: Tensor) -> Tensor:
        """How random the choice is, on average over the batch."""
        raise NotImplementedError

    def grads(self, outputs: Tensor, part: dict[str, Tensor], loss: Loss) -> tuple[Tensor, Terms] | None:
        """PPO's loss by hand, on a CPU: its grads at the outputs and its terms; None if only autograd can do it. A
        head with parameters of its own fills their gradients. For use under `torch.no_grad`."""
        return None

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        """Outputs under which masked actions are never taken."""
        raise OptionError(f"action masks need discrete actions; these are {type(self).__name__.lower()}")

    def to_env(self, actions: Tensor) -> Tensor:
        """Actions as the env wants them."""
        return actions


def _categorical_grads(outputs: Tensor, sizes: np.ndarray, part: dict[str, Tensor], loss: Loss) -> tuple[Tensor, Terms]:
    grads = torch.empty_like(outputs)
    actions = part["actions"].reshape(len(outputs), -1)
    arrays = (x.numpy() for x in (actions, part["log_probs"], part["advantages"]))
    return grads, categorical_grads(outputs.numpy(), sizes, *arrays, *loss, grads.numpy())


class CategoricalHead(Head):
    """One choice."""

    def __init__(self, space: spaces.Discrete) -> None:
        super().__init__()
        self.outputs = self.noise = int(space.n)
        self.shape, self.start = (), int(space.start)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + noise).argmax(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return torch.log_softmax(outputs, -1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def entropy(self, outputs: Tensor) -> Tensor:
        return _categorical_entropy(outputs)

    def grads(self, outputs: Tensor, part: dict[str, Tensor], loss: Loss) -> tuple[Tensor, Terms]:
        return _categorical_grads(outputs, np.array([self.outputs]), part, loss)

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        return outputs.masked_fill(~mask.reshape(outputs.shape), FORBIDDEN)

    def to_env(self, actions: Tensor) -> Tensor:
        return actions + self.start if self.start else actions


class MultiCategoricalHead(Head):
    """Several choices at once, independent of each other. Their logits stand side by side."""

    starts: Tensor

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        super().__init__()
        self.sizes = [int(n) for n in space.nvec.ravel()]
        self.outputs = self.noise = sum(self.sizes)
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

    def grads(self, outputs: Tensor, part: dict[str, Tensor], loss: Loss) -> tuple[Tensor, Terms]:
        return _categorical_grads(outputs, np.array(self.sizes), part, loss)

    def apply_mask(self, outputs: Tensor, mask: Tensor) -> Tensor:
        return outputs.masked_fill(~mask.reshape(outputs.shape), FORBIDDEN)

    def to_env(self, actions: Tensor) -> Tensor:
        return actions + self.starts


class BernoulliHead(Head):
    """Any number of yes-or-no decisions (MultiBinary)."""

    def __init__(self, space: spaces.MultiBinary) -> None:
        super().__init__()
        self.outputs = self.noise = int(np.prod(space.shape))
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
    """Continuous actions: a mean from the net, a deviation of its own. Cut to the bounds only on the way to the env,
    so that log-probabilities stay those of what was drawn."""

    low: Tensor
    high: Tensor
    dtype = torch.float32

    def __init__(self, space: spaces.Box, log_std: float) -> None:
        super().__init__()
        self.outputs = self.noise = int(np.prod(space.shape))
        self.shape = space.shape
        self.log_std = nn.Parameter(torch.full((self.outputs,), log_std))
        self.register_buffer("low", torch.as_tensor(space.low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.as_tensor(space.high, dtype=torch.float32), persistent=False)

    def sample_noise(self, *rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(*rows, self.noise, generator=generator, device=generator.device)

    def sample(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return (outputs + self.log_std.exp() * noise).reshape(-1, *self.shape)

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.reshape(-1, *self.shape)

    def log_prob(self, outputs: Tensor, actions: Tensor) -> Tensor:
        distance = (actions.reshape(outputs.shape) - outputs) * (-self.log_std).exp()
        return -0.5 * distance.square().sum(-1) - (self.log_std.sum() + 0.5 * math.log(2 * math.pi) * self.outputs)

    def entropy(self, outputs: Tensor) -> Tensor:
        return self.log_std.sum() + 0.5 * math.log(2 * math.pi * math.e) * self.outputs

    def grads(self, outputs: Tensor, part: dict[str, Tensor], loss: Loss) -> tuple[Tensor, Terms]:
        grads = torch.empty_like(outputs)
        actions = part["actions"].reshape(outputs.shape)
        arrays = (x.detach().numpy() for x in (outputs, self.log_std, actions, part["log_probs"], part["advantages"]))
        assert self.log_std.grad is not None
        return grads, gaussian_grads(*arrays, *loss, grads.numpy(), self.log_std.grad.numpy())

    def to_env(self, actions: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(actions, self.low), self.high)


def _categorical_entropy(logits: Tensor) -> Tensor:
    log_probs = torch.log_softmax(logits, -1)
    return -(log_probs.exp() * log_probs).sum(-1).mean()


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
    raise OptionError(f"PPO cannot act in {space}; it takes Discrete, MultiDiscrete, MultiBinary and Box of floats")
