"""Gradient steps of all members on any device: stacked parameters, batched products, one set of launches for all.

Equal to those of single learners to float tolerance. On a GPU a step is replayed as a CUDA graph: its hundred kernels
take a few microseconds each, less than it takes to launch them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.captured_call import CapturedCall
from rookery.learners.execution.choose import accelerate
from rookery.learners.heads import FORBIDDEN, GaussianHead, Head, MultiCategoricalHead
from rookery.learners.networks import MLP
from rookery.learners.schedules import BETAS, scheduled

NUMBERS = ("learning_rate", "clip", "clip_values", "entropy", "value_weight", "max_grad_norm")


class ParameterStack:
    """Weights, gradients and moments [members, parameters]. The learners' own vectors become rows of it, so that a
    member can be saved, evaluated and changed as a learner of its own at any time."""

    def __init__(self, learners: Sequence[PPO]) -> None:
        self.learners = list(learners)
        first = self.learners[0]
        shape = len(self.learners), first.adam.flat.numel()
        self.flat, self.gradient, *moments = (torch.zeros(shape) for _ in range(4))
        self.moments = moments[0], moments[1]
        for row, learner in enumerate(self.learners):
            learner.adam.move_to(self.flat[row], self.gradient[row], (moments[0][row], moments[1][row]))
            learner.accelerator = accelerate(learner)
        starts = np.cumsum([0, *(parameter.numel() for parameter in first.adam.parameters)])
        self._starts = {id(parameter): int(at) for parameter, at in zip(first.adam.parameters, starts, strict=False)}

    def __len__(self) -> int:
        return len(self.learners)

    def view(self, of: Tensor, parameter: Any) -> Tensor:
        """A parameter of all members, [members, *shape], in a matrix like `flat`."""
        start = self._starts[id(parameter)]
        return of[:, start : start + parameter.numel()].view(len(of), *parameter.shape)

    @property
    def steps(self) -> Tensor:
        """How many steps the optimizer of each member has made."""
        return torch.stack([learner.adam.steps for learner in self.learners])

    def set_steps(self, steps: Tensor) -> None:
        """Write them back."""
        for learner, count in zip(self.learners, steps, strict=True):
            learner.adam.steps.copy_(count)


@dataclass(frozen=True)
class MemberSettings:
    """The numbers in which members may differ, one value per member, for one update; schedules are applied."""

    learning_rate: np.ndarray
    clip: np.ndarray
    clip_values: np.ndarray  # infinite where values are not clipped
    entropy: np.ndarray
    value_weight: np.ndarray
    max_grad_norm: np.ndarray
    normalise: np.ndarray
    epochs: np.ndarray
    target_kl: np.ndarray  # infinite where there is none

    @classmethod
    def of(cls, learners: Sequence[PPO]) -> MemberSettings:
        options = [learner.options for learner in learners]
        clips = [scheduled(o.clip, o.clip_schedule, m.progress) for o, m in zip(options, learners, strict=True)]
        return cls(
            learning_rate=np.array([learner.learning_rate for learner in learners]),
            clip=np.array(clips, np.float64),
            clip_values=np.array([math.inf if o.clip_values is None else o.clip_values for o in options]),
            entropy=np.array([o.entropy for o in options], np.float64),
            value_weight=np.array([o.value_weight for o in options], np.float64),
            max_grad_norm=np.array([o.max_grad_norm for o in options], np.float64),
            normalise=np.array([o.normalise_advantages for o in options], np.bool_),
            epochs=np.array([o.epochs for o in options]),
            target_kl=np.array([math.inf if o.target_kl is None else o.target_kl for o in options]),
        )


class TensorStep:
    """Autograd and Adam over copies of a `ParameterStack` on a device."""

    def __init__(self, stack: ParameterStack, device: torch.device) -> None:
        learner = stack.learners[0]
        self.stack, self.device = stack, device
        self.head, self.eps = learner.head, learner.adam.eps
        self.policy: Any = learner.policy
        members = len(stack)
        self.weights = torch.zeros_like(stack.flat, device=device).requires_grad_()
        self.first, self.second = (torch.zeros_like(stack.flat, device=device) for _ in range(2))
        self.count = torch.zeros(members, 1, device=device)
        self.numbers = {name: torch.zeros(members, 1, device=device) for name in NUMBERS}
        self.normalise = torch.zeros(members, 1, dtype=torch.bool, device=device)
        self.active = torch.zeros(members, 1, dtype=torch.bool, device=device)
        self.metrics = torch.zeros(members, 5, device=device)
        self._offsets = torch.arange(members, device=device).unsqueeze(1)
        self._samples: dict[str, Tensor] = {}  # [members * rows, ...]
        self._graphs: dict[int, tuple[Tensor, CapturedCall]] | None = {} if device.type == "cuda" else None
        self._was_active: np.ndarray | None = None

    # --- one update -----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def begin(self, settings: MemberSettings) -> None:
        """Take weights, moments and settings to the device."""
        stack = self.stack
        for mine, its in zip((self.weights, self.first, self.second), (stack.flat, *stack.moments), strict=True):
            mine.copy_(its)
        self.count.copy_(stack.steps.unsqueeze(1))
        for name, tensor in self.numbers.items():
            tensor.copy_(torch.from_numpy(getattr(settings, name)).float().unsqueeze(1))
        self.normalise.copy_(torch.from_numpy(settings.normalise).unsqueeze(1))
        self._was_active = None

    @torch.no_grad()
    def end(self) -> None:
        """Bring weights and moments back to the learners."""
        stack = self.stack
        for its, mine in zip((stack.flat, *stack.moments), (self.weights, self.first, self.second), strict=True):
            its.copy_(mine)
        stack.set_steps(self.count[:, 0].cpu())

    @torch.no_grad()
    def values(self, features: Tensor) -> Tensor:
        """The critics' values of features [members, rows, width], on the CPU."""
        return self._net(self.policy.critic, features.to(self.device)).squeeze(-1).cpu()

    def shuffle(self, samples: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
        """The places of an epoch's rows. The samples are taken to the device once per update, and gathered there."""
        rows = order.shape[1]
        if self._samples.get("of") is not samples["log_probs"]:
            self._upload(samples)
        return {"places": order.to(self.device) + self._offsets * rows}

    def _upload(self, samples: dict[str, Tensor]) -> None:
        """Into memory that stays the same, as graphs need it."""
        flat = {name: value.flatten(0, 1) for name, value in samples.items()}
        known = self._samples.keys() - {"of"} == flat.keys()
        if known and all(self._samples[name].shape == value.shape for name, value in flat.items()):
            for name, value in flat.items():
                self._samples[name].copy_(value, non_blocking=True)
        else:
            self._samples = {name: value.to(self.device, copy=True) for name, value in flat.items()}
            if self._graphs is not None:
                self._graphs = {}
        self._samples["of"] = samples["log_probs"]

    def step(self, shuffled: dict[str, Tensor], low: int, high: int, active: np.ndarray) -> Tensor:
        """One gradient step on rows [low, high) of every member; returns metrics [members, 5], valid until the next."""
        if self._was_active is None or not np.array_equal(active, self._was_active):
            self.active.copy_(torch.from_numpy(active).unsqueeze(1))
            self._was_active = active.copy()
        places = shuffled["places"][:, low:high]
        if self._graphs is None:
            self._train(places)
        else:
            self._replay(places)
        return self.metrics

    # --- CUDA graphs ----------------------------------------------------------------------------------------------

    def _replay(self, places: Tensor) -> None:
        rows = places.shape[1]
        assert self._graphs is not None
        if rows not in self._graphs:
            self._graphs[rows] = self._captured(places.clone())
        its_places, step = self._graphs[rows]
        its_places.copy_(places)
        step()

    def _captured(self, places: Tensor) -> tuple[Tensor, CapturedCall]:
        """A step for one number of rows, with the tensor that it reads their places from."""
        return places, CapturedCall(lambda: self._train(places), self.device, state=self._state, name="gradient steps")

    def _state(self) -> list[Tensor]:
        return [self.weights, self.first, self.second, self.count]

    # --- loss and optimizer -----------------------------------------------------------------------------------------

    def _train(self, places: Tensor) -> None:
        rows = places.flatten()
        batch = {
            name: value.index_select(0, rows).view(*places.shape, *value.shape[1:])
            for name, value in self._samples.items()
            if name != "of"
        }
        loss, terms = self._loss(batch)
        (gradient,) = torch.autograd.grad(loss, [self.weights])
        self._adam(gradient, terms)

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """The sum of the members' losses, and of each its divergence, policy loss, value loss and entropy."""
        outputs = self._net(self.policy.actor, batch["features"])
        if "masks" in batch:
            outputs = outputs.masked_fill(~batch["masks"], FORBIDDEN)
        log_std = None
        if isinstance(self.head, GaussianHead):
            log_std = self.stack.view(self.weights, self.head.log_std)
        log_ratio = log_prob(self.head, outputs, batch["actions"], log_std) - batch["log_probs"]
        policy_loss = self._policy_loss(log_ratio.exp(), batch["advantages"])
        value_loss = self._value_loss(self._net(self.policy.critic, batch["features"]).squeeze(-1), batch)
        spread = entropy(self.head, outputs, log_std)
        weights = self.numbers["value_weight"][:, 0], self.numbers["entropy"][:, 0]
        loss = policy_loss + weights[0] * value_loss - weights[1] * spread
        with torch.no_grad():
            kl = (log_ratio.exp() - 1 - log_ratio).mean(-1)
        return loss.sum(), [kl, policy_loss.detach(), value_loss.detach(), spread.detach()]

    def _policy_loss(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        clip = self.numbers["clip"]
        if advantages.shape[1] > 1:
            mean, std = advantages.mean(-1, keepdim=True), advantages.std(-1, keepdim=True)
            advantages = torch.where(self.normalise, (advantages - mean) / (std + 1e-8), advantages)
        clipped = torch.minimum(torch.maximum(ratio, 1 - clip), 1 + clip)
        return -torch.min(advantages * ratio, advantages * clipped).mean(-1)

    def _value_loss(self, values: Tensor, batch: dict[str, Tensor]) -> Tensor:
        limit = self.numbers["clip_values"]
        error = (values - batch["returns"]).square()
        near = batch["values"] + torch.minimum(torch.maximum(values - batch["values"], -limit), limit)
        return 0.5 * torch.max(error, (near - batch["returns"]).square()).mean(-1)

    def _net(self, net: MLP, features: Tensor) -> Tensor:
        *hidden, last = net.layer_params
        for weight, bias in hidden:
            features = net.activation(self._layer(features, weight, bias))
        return self._layer(features, *last)

    def _layer(self, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weights, biases = self.stack.view(self.weights, weight), self.stack.view(self.weights, bias)
        return torch.baddbmm(biases.unsqueeze(1), features, weights.transpose(1, 2))

    @torch.no_grad()
    def _adam(self, gradient: Tensor, terms: list[Tensor]) -> None:
        """A step of every active member; the metrics of the others stay."""
        norm = gradient.norm(dim=1, keepdim=True)
        gradient = gradient * (self.numbers["max_grad_norm"] / (norm + 1e-6)).clamp(max=1.0)
        active = self.active
        self.count.add_(active)
        first = self.first + (1 - BETAS[0]) * (gradient - self.first)
        second = BETAS[1] * self.second + (1 - BETAS[1]) * gradient.square()
        rate = self.numbers["learning_rate"] / (1 - BETAS[0] ** self.count)
        spread = (1 - BETAS[1] ** self.count).rsqrt()
        change = rate * first / (second.sqrt() * spread + self.eps)
        self.first.copy_(torch.where(active, first, self.first))
        self.second.copy_(torch.where(active, second, self.second))
        self.weights.sub_(torch.where(active, change, torch.zeros_like(change)))
        metrics = torch.stack([*terms, norm[:, 0]], 1)
        self.metrics.copy_(torch.where(active, metrics, self.metrics))


def log_prob(head: Head, outputs: Tensor, actions: Tensor, log_std: Tensor | None) -> Tensor:
    """[members, rows]; `actions` are [members, rows, columns], `log_std` [members, columns] of continuous ones."""
    if isinstance(head, GaussianHead):
        assert log_std is not None
        distance = (actions - outputs) * (-log_std).exp().unsqueeze(1)
        constant = log_std.sum(-1, keepdim=True) + 0.5 * math.log(2 * math.pi) * head.outputs
        return -0.5 * distance.square().sum(-1) - constant
    taken = [
        torch.log_softmax(part, -1).gather(-1, actions[..., k : k + 1])
        for k, part in enumerate(outputs.split(_sizes(head), -1))
    ]
    return taken[0].squeeze(-1) if len(taken) == 1 else torch.cat(taken, -1).sum(-1)


def entropy(head: Head, outputs: Tensor, log_std: Tensor | None) -> Tensor:
    """The mean over rows, [members]."""
    if isinstance(head, GaussianHead):
        assert log_std is not None
        return log_std.sum(-1) + 0.5 * math.log(2 * math.pi * math.e) * head.outputs
    logs = [torch.log_softmax(part, -1) for part in outputs.split(_sizes(head), -1)]
    each = [-(part.exp() * part).sum(-1).mean(-1) for part in logs]
    return each[0] if len(each) == 1 else torch.stack(each).sum(0)


def _sizes(head: Head) -> list[int]:
    return head.sizes if isinstance(head, MultiCategoricalHead) else [head.outputs]
