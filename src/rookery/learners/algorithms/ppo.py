"""PPO: proximal policy optimisation (Schulman et al., 2017).

Collect `rollout_length` steps of every env, compute advantages, improve the policy on them for a few epochs, and
discard the rollout. While acting only the actor runs: values, log-probabilities and advantages are computed for the
complete rollout at once.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.learners.algorithms.vtrace import vtrace
from rookery.learners.encoders import OutputColumns, make_encoder
from rookery.learners.heads import head_for
from rookery.learners.learner import Learner
from rookery.learners.networks import MLP
from rookery.learners.policy import FrozenActor, Policy, make_leaves
from rookery.learners.registry import PPOOptions
from rookery.learners.shared_nets import columns_of, make_actor_critic

METRICS = ("kl", "policy", "value", "entropy", "gradient")
Minibatch = dict[str, Tensor]  # rows of a rollout by name; of a recurrent policy trajectories, [steps, envs, ...]


class ActorCritic(Policy):
    """Two perceptrons, actor and critic, over a shared encoder, with an optional recurrent core (GRU) between them."""

    actor: MLP | OutputColumns  # columns of a network of the user's own
    critic: MLP | OutputColumns

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: PPOOptions) -> None:
        super().__init__()
        self.leaves, self.options = make_leaves(observation_space), options
        self.head = head_for(action_space, options.log_std)
        self.memory_size = options.recurrent or 0
        whole = make_actor_critic(observation_space, action_space, self.leaves, options, self.head.outputs)
        if whole is not None:
            self.core, (self.encoder, self.actor, self.critic) = None, whole
            return
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.core = nn.GRUCell(self.encoder.width, self.memory_size) if self.memory_size else None
        width = self.memory_size or self.encoder.width
        self.actor = MLP(width, options.hidden, self.head.outputs, options.activation, gain=0.01)
        self.critic = MLP(width, options.critic_widths, 1, options.activation)

    def features(self, leaves: list[Tensor], memory: Tensor | None = None) -> Tensor:
        """The input of actor and critic; of a recurrent policy, also its next memory."""
        encoded = self.encoder.forward(leaves)  # calling it as a module would take longer than it does
        return encoded if self.core is None else self.core(encoded, memory)

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        features = self.features(leaves, memory)
        outputs = self.actor(features)
        if mask is not None:
            outputs = self.head.apply_mask(outputs, mask)
        actions = self.head.mode(outputs) if noise is None else self.head.sample(outputs, noise)
        return self.head.to_env(actions), features if self.core else None

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return self.head.sample_noise(rows, generator=generator)

    def frozen_actor(self) -> FrozenActor | None:
        actor, to_actions = self.actor, self.head.numpy_actions()
        if to_actions is None:
            return None
        return FrozenActor(actor.layer_params, actor.activation_name, to_actions, columns_of(actor))


class PPO(Learner):
    """Learns from the steps of its present policy only."""

    on_policy = True
    options: PPOOptions
    policy: ActorCritic
    metric_names = METRICS

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> ActorCritic:
        policy = ActorCritic(observation_space, action_space, self.options).to(self.device)
        self.head, self.adam = policy.head, self.optimizer(policy.parameters(), eps=1e-5)
        return policy

    def parts(self) -> dict[str, Any]:
        return {"adam": self.adam}

    # --- acting and evaluating --------------------------------------------------------------------------------------

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The actor's outputs, random actions, and features: the next memory of a recurrent policy."""
        features = self.features(leaves, memory)
        outputs = self.outputs(features, mask)
        return outputs, self.head.sample(outputs, noise), features

    def encode(self, leaves: list[Tensor]) -> Tensor:
        """The encoder's output for the leaves of observations."""
        return self.policy.encoder(leaves)

    def features(self, leaves: list[Tensor], memory: Tensor | None = None) -> Tensor:
        """The input of actor and critic."""
        encoded = self.encode(leaves)
        return encoded if self.policy.core is None else self.policy.core(encoded, memory)

    def outputs(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """The actor's outputs, with those of forbidden actions set."""
        outputs = self.policy.actor(features)
        return outputs if mask is None else self.head.apply_mask(outputs, mask)

    def values(self, features: Tensor) -> Tensor:
        """The critic's, of the input of actor and critic."""
        return self.policy.critic(features).reshape(features.shape[:-1])

    # --- targets: advantages and returns ----------------------------------------------------------------------------

    def targets(
        self,
        rewards: Tensor,
        values: Tensor,
        next_values: Tensor,
        terminated: Tensor,
        ended: Tensor,
        log_probs: Tensor,
        acted: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """What is learned from a rollout, each [steps, envs]; arguments are those of `gae`, and the log-probabilities
        of the actions. Where older weights have chosen them, `acted` are theirs, and V-trace corrects for that."""
        outcome, options = (rewards, values, next_values, terminated, ended), self.options
        if acted is None:
            advantages = self.advantages(*outcome)
            returns = advantages + values
        else:
            ratios = (log_probs - acted).exp()
            advantages, returns = vtrace(*outcome, ratios, options.gamma, options.gae_lambda)
        return {"log_probs": log_probs, "advantages": advantages, "values": values, "returns": returns}

    def advantages(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> Tensor:
        """Generalised advantage estimation with the present options."""
        return gae(rewards, values, next_values, terminated, ended, self.options.gamma, self.options.gae_lambda)

    # --- loss -------------------------------------------------------------------------------------------------------

    def loss(
        self, minibatch: Minibatch, clip: float | Tensor, normalise: bool = True
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The loss, and its parts: log-ratios, policy loss, value loss and entropy. With `normalise` false, advantages
        are taken as they are, whatever the options say."""
        features = self.minibatch_features(minibatch)
        if self.policy.core is not None:
            minibatch = {name: value.flatten(0, 1) for name, value in minibatch.items() if name != "memory"}
        outputs = self.outputs(features, minibatch.get("masks"))
        log_ratio = self.head.log_prob(outputs, minibatch["actions"]) - minibatch["log_probs"]
        policy_loss = self.policy_loss(log_ratio.exp(), minibatch["advantages"], clip, normalise)
        value_loss = self.value_loss(self.policy.critic(features).squeeze(-1), minibatch)
        entropy = self.head.entropy(outputs)
        loss = policy_loss + self.options.value_weight * value_loss - self.options.entropy * entropy
        return loss, (log_ratio, policy_loss, value_loss, entropy)

    def minibatch_features(self, minibatch: Minibatch) -> Tensor:
        """The input of actor and critic; a recurrent core runs through the trajectories again."""
        leaves = [minibatch[f"leaf{k}"] for k in range(len(self.leaves))]
        if self.policy.core is None:
            return self.encode(leaves)
        encoded = self.encode([leaf.flatten(0, 1) for leaf in leaves])
        encoded = encoded.reshape(*minibatch["starts"].shape, -1)
        memory, features = minibatch["memory"][0], []
        for t, starts in enumerate(minibatch["starts"]):
            memory = self.policy.core(encoded[t], memory.masked_fill(starts.unsqueeze(1), 0.0))
            features.append(memory)
        return torch.cat(features)

    def policy_loss(self, ratio: Tensor, advantages: Tensor, clip: float | Tensor, normalise: bool) -> Tensor:
        """The clipped surrogate."""
        if normalise and self.options.normalise_advantages and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = ratio.clamp(1 - clip, 1 + clip)  # type: ignore[arg-type]  # torch declares either, not both
        return -torch.min(advantages * ratio, advantages * clipped).mean()

    def value_loss(self, values: Tensor, minibatch: Minibatch) -> Tensor:
        """Half the mean squared error; with `clip_values` the worse of two counts."""
        error = (values - minibatch["returns"]).square()
        if self.options.clip_values is not None:
            limit = self.options.clip_values
            near = minibatch["values"] + (values - minibatch["values"]).clamp(-limit, limit)
            error = torch.max(error, (near - minibatch["returns"]).square())
        return 0.5 * error.mean()

    def gradient_step(self, minibatch: Minibatch, clip: float | Tensor, normalise: bool = True) -> Tensor:
        """One step of the optimizer on the loss; returns METRICS."""
        loss, (log_ratio, policy_loss, value_loss, entropy) = self.loss(minibatch, clip, normalise)
        grad_norm = self.adam.minimize(loss, self.options.max_grad_norm)
        with torch.no_grad():
            kl = (log_ratio.exp() - 1 - log_ratio).mean()
            return torch.stack([kl, policy_loss, value_loss, entropy, grad_norm])


def gae(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    ended: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Generalised advantage estimation, [steps, envs]. `next_values` are the critic's values of the observation after
    each step: the final one where an episode ended. No advantage reaches across the end of an episode."""
    deltas = rewards + gamma * next_values * ~terminated - values
    advantages, carried = torch.empty_like(deltas), torch.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        carried = deltas[t] + gamma * gae_lambda * carried * ~ended[t]
        advantages[t] = carried
    return advantages
