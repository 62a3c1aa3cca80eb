"""PQN's accelerator for perceptrons on a CPU: PPO's compiled acting and updates, with one layer-normalised network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.heads import CategoricalHead, MultiCategoricalHead
from rookery.learners.kernels.cpu.fused_ppo import FusedPPO, Minibatch
from rookery.learners.kernels.cpu.perceptron import KINDS
from rookery.learners.kernels.cpu.ppo_plan import PPOPlan

LOSS, VALUE, GRADIENT = 2, 1, 4  # where the plan's metrics have those of PQN


class FusedPQN(FusedPPO):
    """For values of actions that are a perceptron on a CPU, with nothing before it that learns."""

    replaces = ("advantages", "values", "gradient_step", "act", "encode", "features", "outputs", "loss")

    @classmethod
    def supports(cls, learner: Any) -> bool:
        policy, heads = learner.policy, (CategoricalHead, MultiCategoricalHead)
        perceptron = not policy.encoder.is_trained and policy.net.activation_name in KINDS
        return perceptron and learner.device.type == "cpu" and type(learner.head) in heads

    @torch.no_grad()
    def values(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        outputs = torch.from_numpy(self.acting_plan().outputs(features.contiguous().numpy()))
        return self.learner.policy.best(outputs if mask is None else self.head.apply_mask(outputs, mask))

    @torch.no_grad()
    def update(self, clip: float) -> Tensor:
        learner, plan = self.learner, self.plan
        rollout, epochs = learner.rollout, learner.options.epochs
        features = learner.policy.encoder(rollout.flat_leaves())
        self._pack(plan)
        plan.set_samples(features, learner.evaluate_rollout(), rollout.actions.flatten(0, 1), None)
        plan.set_numbers(clip, False)
        rows = len(features)
        orders = torch.stack([torch.randperm(rows, generator=learner.generator) for _ in range(epochs)])
        return _metrics(plan.epochs(orders, -(-rows // min(learner.minibatches, rows))).mean(0))

    @torch.no_grad()
    def gradient_step(self, minibatch: Minibatch) -> Tensor:  # type: ignore[override]  # PQN's has no clip range
        metrics = self._with_minibatch(minibatch, 0.0).gradient(torch.arange(len(minibatch["returns"])))
        metrics[GRADIENT] = self.learner.adam.step(self.learner.options.max_grad_norm)
        self._packed = None  # its weights are those before the step
        return _metrics(metrics)

    def _with_minibatch(self, minibatch: Minibatch, clip: float, normalise: bool = False) -> PPOPlan:
        plan, leaves = self.plan, [minibatch[f"leaf{k}"] for k in range(len(self.learner.leaves))]
        plan.pack()
        plan.set_samples(self.learner.policy.encoder(leaves), minibatch, minibatch["actions"], None)
        plan.set_numbers(clip, normalise)
        return plan


def _metrics(found: Tensor) -> Tensor:
    """Those of PQN; the plan has the returns with the sign of an objective."""
    return torch.stack([found[LOSS], found[VALUE], found[GRADIENT]])
