"""TD3: twin delayed deep deterministic policy gradients (Fujimoto et al., 2018), for continuous actions.

A deterministic actor is trained to maximise what a critic estimates. Three changes make that stable: of two critics the
smaller value is the target; the actor and the target networks are updated less often than the critics; and noise on the
target actions keeps the critics smooth. All actions in this file lie between -1 and 1.

REDQ (Chen et al., 2021) is the same algorithm with many updates per step. Against the bias that this brings, it has an
ensemble of critics, and takes the target from a random few of them. The option `redq` sets its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.algorithms.bounded_actor import BoundedActorCritic, BoundedPolicy
from rookery.learners.networks import with_params_from
from rookery.learners.noise import random_places
from rookery.learners.policy import FrozenActor
from rookery.learners.registry import TD3Options
from rookery.learners.replay_buffer import ReplayBatch

FIRST = slice(0, 1)  # the critic that trains TD3's actor
Network = Callable[..., Tensor]
Step = tuple[Tensor, Tensor, Tensor | None]  # of a gradient step: the critics' values, TD errors, the actor's loss


class TD3Policy(BoundedPolicy):
    """A deterministic actor, squashed by tanh. Its random actions have Gaussian noise of `exploration_noise`."""

    title = "TD3"

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: TD3Options) -> None:
        super().__init__(observation_space, action_space, options)
        self.std = options.exploration_noise

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Actions [batch, size] for features, with noise of standard deviation 1 or without."""
        actions = self.net(features).tanh()
        return actions if noise is None else (actions + self.std * noise).clamp(-1.0, 1.0)

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        self.refuse_mask(mask)
        return self.to_env(self(self.encoder(leaves), noise)), None

    def frozen_actor(self) -> FrozenActor:
        to_env, std = self.bounds.numpy_to_env(), self.std

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            self.refuse_mask(mask)
            actions = np.tanh(outputs)
            return to_env(actions if noise is None else np.clip(actions + std * noise, -1.0, 1.0))

        return FrozenActor(self.net.layer_params, self.net.activation_name, to_actions)


class TD3(BoundedActorCritic):
    """Learns from replay, by default once for every step of an env."""

    options: TD3Options
    policy: TD3Policy
    metric_names = ("critic", "value", "actor")

    # --- networks ---------------------------------------------------------------------------------------------------

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> TD3Policy:
        policy = TD3Policy(observation_space, action_space, self.options).to(self.device)
        self.add_networks(policy, self.options.num_critics, [])
        self.target_actor_weights = self.actor_adam.flat.data.clone()
        self.target_actor = with_params_from(policy.net, self.target_actor_weights)
        return policy

    # --- acting -----------------------------------------------------------------------------------------------------

    def act(self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor) -> Tensor:
        """Random actions for exploring, from noise of standard deviation 1."""
        self.policy.refuse_mask(mask)
        return self.policy(self.policy.encoder(leaves), noise)

    # --- targets ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def td_target(self, batch: ReplayBatch, actor: Network | None = None, critics: Network | None = None) -> Tensor:
        """Rewards, and the target critics' value of the target actor's action, with clipped noise on it. `actor` and
        `critics` are other ways to compute the same networks."""
        actor, critics = actor or self.target_actor, critics or self.targets
        options, shape = self.options, batch.actions.shape
        encoder = self.targets.encoder if self.has_images else self.policy.encoder
        features = encoder(batch.next_leaves)
        noise = torch.randn(shape, generator=self.generator, device=self.device).mul_(options.policy_noise)
        noise.clamp_(-options.noise_clip, options.noise_clip)
        actions = (actor(features).tanh() + noise).clamp_(-1.0, 1.0)
        if options.target_mode == "mean":
            next_values = critics(features, actions).mean(0)
        else:
            next_values = critics(features, actions, self._chosen_critics()).amin(0)
        return torch.addcmul(self.scaled_rewards(batch.rewards), batch.discounts, next_values)

    def _chosen_critics(self) -> Tensor | None:
        """The critics whose smallest value is the target: all, or for REDQ a random few."""
        count, chosen = self.options.num_critics, self.options.min_critics
        return None if chosen >= count else random_places(count, chosen, self.generator)

    # --- losses -----------------------------------------------------------------------------------------------------

    def critic_loss(self, td_error: Tensor, weights: Tensor | None) -> Tensor:
        """Half the mean squared TD error of each critic, summed; prioritised samples have importance weights."""
        squares = td_error.square() if weights is None else td_error.square() * weights
        return 0.5 * squares.sum() / td_error.shape[1]

    def actor_loss(self, features: Tensor) -> Tensor:
        """Minus the value of the actor's own actions: by the first critic, or by the mean of REDQ's ensemble."""
        return -self.frozen_critics(features, self.policy(features), self.actor_critics).mean()

    @property
    def actor_critics(self) -> slice | None:
        """The critics that train the actor; None for all."""
        return FIRST if self.options.num_critics <= 2 else None

    # --- the gradient step ------------------------------------------------------------------------------------------

    def trains_actor(self, number: int) -> bool:
        """Whether the update of this number trains the actor too."""
        return number % self.options.policy_delay == 0

    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> Step:
        """One step of the critics' optimizer, and of the actor's if it is due; `weights` are those of importance."""
        td_target, features = self.td_target(batch), self.policy.encoder(batch.leaves)
        values = self.critics(features, batch.actions)
        td_error = values - td_target
        self.critic_adam.minimize(self.critic_loss(td_error, weights), self.options.max_grad_norm, norm=False)
        actor_loss = None
        if self.trains_actor(number):
            actor_loss = self.actor_loss(features.detach())
            self.actor_adam.minimize(actor_loss, self.options.max_grad_norm, norm=False)
            actor_loss = actor_loss.detach()
        return values.detach(), td_error.detach(), actor_loss

    def td_errors(self, step: Step) -> Tensor:
        """How wrong the critics were about each transition."""
        return step[1].abs().mean(0)

    def follow(self, share: float | Tensor) -> None:
        """Let the target networks take a share of the trained weights."""
        self.target_weights.lerp_(self.critic_adam.flat.data, share)
        self.target_actor_weights.lerp_(self.actor_adam.flat.data, share)

    def metrics(self, step: Step, weights: Tensor | None) -> dict[str, Tensor]:
        """Of a gradient step."""
        values, td_error, actor_loss = step
        found = {"critic": self.critic_loss(td_error, weights), "value": values.mean()}
        return found if actor_loss is None else found | {"actor": actor_loss}

    # --- changes during a run, save and load ------------------------------------------------------------------------

    def options_changed(self) -> None:
        self.policy.std = self.options.exploration_noise

    def more_vectors(self) -> dict[str, Any]:
        return {"target_actor": self.target_actor_weights}
