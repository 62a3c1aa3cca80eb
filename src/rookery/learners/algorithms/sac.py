"""SAC: soft actor-critic, for continuous actions (Haarnoja et al., 2018).

An actor outputs a distribution of actions, two critics estimate their values, and the smaller estimate counts. Entropy
is rewarded, with a weight (the temperature) that is learned. All actions in this file lie between -1 and 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from rookery.learners.algorithms.bounded_actor import BoundedActorCritic, BoundedPolicy
from rookery.learners.heads import LOG_STD, squashed_log_prob
from rookery.learners.policy import FrozenActor
from rookery.learners.registry import SACOptions
from rookery.learners.replay_buffer import ReplayBatch

Step = tuple[Tensor, Tensor, Tensor]  # of a gradient step: the critics' values, their targets, and the entropy


class SACPolicy(BoundedPolicy):
    """A Gaussian squashed by tanh; mean and standard deviation both depend on the observation."""

    title, outputs = "SAC", 2

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Means and logarithms of standard deviations, before squashing."""
        mean, log_std = self.net(features).chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD)

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        self.refuse_mask(mask)
        mean, log_std = self(self.encoder(leaves))
        return self.to_env((mean if noise is None else mean + log_std.exp() * noise).tanh()), None

    def frozen_actor(self) -> FrozenActor:
        to_env, size = self.bounds.numpy_to_env(), self.size

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            self.refuse_mask(mask)
            raw = outputs[:, :size]
            if noise is not None:
                raw = raw + np.exp(np.clip(outputs[:, size:], *LOG_STD)) * noise
            return to_env(np.tanh(raw))

        return FrozenActor(self.net.layer_params, self.net.activation_name, to_actions)


class SAC(BoundedActorCritic):
    """Learns from replay, by default once for every step of an env."""

    options: SACOptions
    policy: SACPolicy
    metric_names = ("critic", "value", "entropy", "temperature")

    # --- networks ---------------------------------------------------------------------------------------------------

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> SACPolicy:
        policy = SACPolicy(observation_space, action_space, self.options).to(self.device)
        self.add_networks(policy, 2, self.add_temperature())
        return policy

    def add_temperature(self) -> list[nn.Parameter]:
        """Returns it if it is learned: a parameter of the actor's Adam, with a loss of its own, costs nothing."""
        learned = self.options.temperature == "auto"
        start = torch.tensor(first_log_temperature(self.options), device=self.device)
        self.log_temperature = nn.Parameter(start, requires_grad=learned)
        return [self.log_temperature] if learned else []

    @property
    def target_entropy(self) -> float:
        """The entropy that a learned temperature aims at."""
        wish = self.options.target_entropy
        return -float(self.policy.size) if wish is None else wish

    # --- acting -----------------------------------------------------------------------------------------------------

    def act(self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor) -> Tensor:
        """Random actions for exploring, from noise of standard deviation 1."""
        self.policy.refuse_mask(mask)
        return self.sample(self.policy.encoder(leaves), noise, log_probs=False)[0]

    def sample(self, features: Tensor, noise: Tensor, log_probs: bool = True) -> tuple[Tensor, Tensor | None]:
        """Random actions and, if they are wanted, their log-probabilities."""
        mean, log_std = self.policy(features)
        raw = mean + log_std.exp() * noise
        return raw.tanh(), squashed_log_prob(raw, log_std, noise) if log_probs else None

    # --- targets and losses -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def td_target(self, batch: ReplayBatch, noise: Tensor) -> Tensor:
        """Rewards, and the smaller value of the two target critics, with the entropy's reward."""
        features = self.policy.encoder(batch.next_leaves)
        actions, log_probs = self.sample(features, noise)
        assert log_probs is not None
        if self.has_images:  # the target critics have their own slowly following encoder
            features = self.targets.encoder(batch.next_leaves)
        next_values = self.targets(features, actions).amin(0) - self.log_temperature.exp() * log_probs
        return torch.addcmul(self.scaled_rewards(batch.rewards), batch.discounts, next_values)

    def critic_loss(self, values: Tensor, td_target: Tensor) -> Tensor:
        """Half the mean squared error of each critic, summed."""
        return 0.5 * F.mse_loss(values, td_target.expand(2, -1), reduction="sum") / len(td_target)

    def actor_loss(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the actor's and the temperature's losses, and the entropy."""
        actions, log_probs = self.sample(features, noise)
        assert log_probs is not None
        return self.entropy_losses(self.frozen_critics(features, actions).amin(0), log_probs)

    def entropy_losses(self, values: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """The same, from the values of the actor's actions."""
        loss = (self.log_temperature.detach().exp() * log_probs - values).mean()
        entropy = -log_probs.detach().mean()
        if self.log_temperature.requires_grad:
            loss = loss + self.log_temperature * (entropy - self.target_entropy)
        return loss, entropy

    # --- the gradient step ------------------------------------------------------------------------------------------

    def step_noise(self) -> Tensor:
        """For the actions of a gradient step: in the next observations, and in the present ones."""
        shape = 2, self.options.batch_size, self.policy.size
        return torch.randn(shape, generator=self.generator, device=self.device)

    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> Step:
        """One step of both optimizers."""
        noise, limit, features = self.step_noise(), self.options.max_grad_norm, self.policy.encoder(batch.leaves)
        values, td_target = self.critics(features, batch.actions), self.td_target(batch, noise[0])
        self.critic_adam.minimize(self.critic_loss(values, td_target), limit, norm=False)
        actor_loss, entropy = self.actor_loss(features.detach(), noise[1])
        self.actor_adam.minimize(actor_loss, limit, norm=False)
        return values.detach(), td_target, entropy

    def follow(self, share: float | Tensor) -> None:
        """Let the target critics take a share of the trained weights."""
        self.target_weights.lerp_(self.critic_adam.flat.data, share)

    def metrics(self, step: Step, weights: Tensor | None) -> dict[str, Tensor]:
        """Of a gradient step."""
        values, td_target, entropy = step
        loss, temperature = self.critic_loss(values, td_target), self.log_temperature.detach().exp()
        return {"critic": loss, "value": values.mean(), "entropy": entropy, "temperature": temperature}

    # --- changes during a run, save and load ------------------------------------------------------------------------

    def options_changed(self) -> None:
        if self.options.temperature != "auto":
            self.log_temperature.data.fill_(first_log_temperature(self.options))

    def more_vectors(self) -> dict[str, Tensor]:
        return {"temperature": self.log_temperature}


def first_log_temperature(options: SACOptions) -> float:
    """The logarithm of the initial temperature, or of the fixed one if it is given."""
    given: Any = options.temperature
    return math.log(options.temperature_start if given == "auto" else max(given, 1e-8))
