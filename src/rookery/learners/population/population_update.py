"""The update of a population: what `PPO.update` does, for all members in one batched program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.learners.algorithms.ppo import METRICS, PPO
from rookery.learners.kernels.cpu.fused_ppo import FusedPPO
from rookery.learners.population.tensor_step import MemberSettings, ParameterStack, TensorStep


class PopulationUpdate:
    """Updates PPO learners whose nets and rollouts have the same shapes. The learners stay as they are: each can be
    saved, evaluated and trained on alone between two updates. They lie on the CPU; a GPU holds copies in the
    meantime."""

    def __init__(self, learners: Sequence[PPO], device: torch.device | str = "cpu") -> None:
        self.learners = list(learners)
        self.stack = ParameterStack(self.learners)
        device = torch.device(device)
        # If each member's own update is compiled code, nothing gains from a batch.
        alone = device.type == "cpu" and all(isinstance(one.accelerator, FusedPPO) for one in self.learners)
        self.steps = None if alone else TensorStep(self.stack, device)

    def update(self) -> list[dict[str, float]]:
        """Learn from the rollouts, which are all full; returns the metrics of each member."""
        if self.steps is None:
            return [learner.update() for learner in self.learners]
        settings = MemberSettings.of(self.learners)
        self.steps.begin(settings)
        samples = self._samples(self.steps)
        metrics = self._epochs(self.steps, samples, settings)
        self.steps.end()
        for learner in self.learners:
            learner.policy.encoder.update_normalisers(learner.rollout.flat_leaves())
            learner.rollout.clear()
            learner.updates += 1
            learner.accelerator.invalidate()
        return metrics

    def _epochs(
        self, steps: TensorStep, samples: dict[str, Tensor], settings: MemberSettings
    ) -> list[dict[str, float]]:
        """Members with fewer epochs, or whose policy has moved as far as it may, rest while others continue."""
        rows = samples["log_probs"].shape[1]
        size = -(-rows // min(self.learners[0].minibatches, rows))
        active = np.ones(len(self.learners), np.bool_)
        order = torch.empty(len(self.learners), rows, dtype=torch.int64, device=self.learners[0].generator.device)
        of_epochs: list[tuple[np.ndarray, Tensor]] = []
        for epoch in range(int(settings.epochs.max())):
            active &= epoch < settings.epochs
            if not active.any():
                break
            for row in np.flatnonzero(active):
                generator = self.learners[row].generator
                order[row] = torch.randperm(rows, generator=generator, device=generator.device)
            shuffled = steps.shuffle(samples, order)
            for low in range(0, rows, size):
                latest = steps.step(shuffled, low, min(low + size, rows), active)
            of_epochs.append((active.copy(), latest.clone()))
            if np.isfinite(settings.target_kl).any():
                active &= ~(latest[:, 0].cpu().numpy() > settings.target_kl)
        return _mean_metrics(of_epochs)

    def _samples(self, steps: TensorStep) -> dict[str, Tensor]:
        """The rollouts of all members and the values from their critics, [members, rows, ...]."""
        features = torch.stack([_features(learner) for learner in self.learners])
        values = steps.values(features)
        found = [
            learner.evaluate_rollout(values[k].reshape(learner.rollout.length, -1))
            for k, learner in enumerate(self.learners)
        ]
        samples = {name: torch.stack([one[name].flatten() for one in found]) for name in found[0]}
        rows = features.shape[1]
        actions = torch.stack([learner.rollout.actions.reshape(rows, -1) for learner in self.learners])
        samples |= {"features": features, "actions": actions}
        if any(learner.rollout.masks is not None for learner in self.learners):
            samples["masks"] = torch.stack([_masks(learner, rows) for learner in self.learners])
        return samples


def _features(learner: PPO) -> Tensor:
    """The inputs of actor and critic: normalisers stay as they are until the end of an update."""
    with torch.no_grad():
        return learner.policy.encoder(learner.rollout.flat_leaves())


def _masks(learner: PPO, rows: int) -> Tensor:
    masks = learner.rollout.masks
    return torch.ones(rows, learner.head.outputs, dtype=torch.bool) if masks is None else masks.reshape(rows, -1)


def _mean_metrics(of_epochs: list[tuple[np.ndarray, Tensor]]) -> list[dict[str, float]]:
    """The mean over the epochs in which a member was active."""
    members = len(of_epochs[0][0])
    values = [latest.cpu() for _, latest in of_epochs]
    found = []
    for k in range(members):
        own = [latest[k] for (active, _), latest in zip(of_epochs, values, strict=True) if active[k]]
        found.append(dict(zip(METRICS, torch.stack(own).mean(0).tolist(), strict=True)))
    return found
