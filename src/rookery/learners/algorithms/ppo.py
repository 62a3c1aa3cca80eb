"""PPO: proximal policy optimisation (Schulman et al., 2017).

Collect `rollout_length` steps of every env, compute advantages, improve the policy on them for a few epochs, and
discard the rollout. While acting only the actor runs: values, log-probabilities and advantages are computed for the
complete rollout at once. The calls of `self.accelerator` are optional: each falls back to the code beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.learners.early_stop import EarlyStop
from rookery.learners.encoders import make_actor_critic, make_encoder
from rookery.learners.execution.select import accelerate
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.heads import head_for
from rookery.learners.learner import StepBatch, TensorFinals, seeded
from rookery.learners.networks import MLP
from rookery.learners.observations import are_tensors, split, stack
from rookery.learners.onpolicy import OnPolicy
from rookery.learners.policy import FrozenActor, Policy, make_leaves
from rookery.learners.registry import PPOOptions
from rookery.learners.schedules import scheduled

METRICS = ("kl", "policy", "value", "entropy", "gradient")


class ActorCritic(Policy):
    """Two perceptrons, actor and critic, over a shared encoder, with an optional recurrent core (GRU) between them."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: PPOOptions) -> None:
        super().__init__()
        self.leaves, self.options = make_leaves(observation_space), options
        self.head = head_for(action_space, options.log_std)
        self.memory_size = options.recurrent or 0
        own = make_actor_critic(observation_space, action_space, self.leaves, options, self.head.outputs)
        if own is not None:
            self.core, (self.encoder, self.actor, self.critic) = None, own
            return
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.core = nn.GRUCell(self.encoder.width, self.memory_size) if self.memory_size else None
        width = self.memory_size or self.encoder.width
        self.actor = MLP(width, options.hidden, self.head.outputs, options.activation, gain=0.01)
        self.critic = MLP(width, options.hidden, 1, options.activation)

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
        to_actions = self.head.numpy_actions()
        if to_actions is None:
            return None
        return FrozenActor(self.actor.layer_params, self.actor.activation_name, to_actions)


class PPO(OnPolicy):
    """Learns from the steps of its present policy only."""

    takes_tensors = True
    options: PPOOptions
    policy: ActorCritic

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: PPOOptions,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        with seeded(seed):
            policy = ActorCritic(observation_space, action_space, options).to(device)
        super().__init__(
            policy, observation_space, action_space, options, policy.head, num_envs, seed, torch.device(device)
        )
        self.adam = FlatAdam(policy.parameters(), options.learning_rate, eps=1e-5, compiled=options.accelerate)
        self.clip: float | Tensor = 0.0 if self.device.type == "cpu" else torch.zeros((), device=self.device)
        self.accelerator = accelerate(self)

    # --- collecting: act, and store what was seen, done and rewarded ----------------------------------------------

    def explore(self, observations: Any, rows: slice, mask: Any = None) -> Any:
        self.begin_rollout()
        actions = self.accelerator.explore(observations, rows, mask)
        return self._explore(observations, rows, mask) if actions is None else actions

    @torch.no_grad()
    def _explore(self, observations: Any, rows: slice, mask: Any) -> Any:
        rollout, t = self.rollout, self.rollout.steps_made(rows)
        leaves = split(self.leaves, observations, self.device)
        features = self._features(leaves, self.memory[rows] if self.policy.memory_size else None)
        outputs = self.policy.actor(features)
        if mask is not None:
            self.agent.check_mask(mask, len(outputs))
            outputs = self.head.apply_mask(outputs, rollout.store_mask(t, rows, mask))
        assert rollout.noise is not None
        actions = self.head.sample(outputs, rollout.noise[t, rows])
        if self.policy.core is not None:
            self.memory[rows] = features
        rollout.store(t, rows, leaves, outputs, actions, features)
        if rollout.values is not None:
            rollout.values[t, rows] = self.policy.critic(features).squeeze(-1)
        actions = self.head.to_env(actions)
        return self.agent.nested(actions) if are_tensors(observations) else self.agent.as_arrays(actions)

    def record(self, rows: slice, step: StepBatch) -> None:
        if isinstance(step.rewards, Tensor):
            self._record_tensors(rows, step)
            return
        finals = None
        if step.finals is not None:
            ended, observations = step.finals
            if self.policy.core is not None:
                self.memory[rows.start + torch.as_tensor(ended)] = 0.0
            cut = np.flatnonzero(~step.terminated[ended])  # a terminated episode has no value after its end
            if len(cut):
                finals = ended[cut], stack(self.leaves, [observations[k] for k in cut], self.device)
        self.rollout.store_outcome(rows, step.rewards, step.terminated, step.truncated, finals)
        if self.rollout.steps_made(rows) == self.rollout.length:
            self.rollout.store_last(rows, split(self.leaves, step.observations, self.device))

    @torch.no_grad()
    def _record_tensors(self, rows: slice, step: StepBatch) -> None:
        """Without a choice of rows, which would wait for the device: final observations of all rows are evaluated."""
        rollout = self.rollout
        if not self.accelerator.record(rows, step):
            self._store_tensors(rows, step)
        if rollout.steps_made(rows) == rollout.length:
            rollout.store_last(rows, split(self.leaves, step.observations, self.device))

    def _store_tensors(self, rows: slice, step: StepBatch) -> None:
        if isinstance(step.finals, TensorFinals):
            self._store_final_values(rows, step.finals)
        self.rollout.store_tensors(rows, step.rewards, step.terminated, step.truncated)

    def _store_final_values(self, rows: slice, finals: TensorFinals) -> None:
        rollout, t = self.rollout, self.rollout.steps_made(rows)
        if rollout.final_values is None:
            rollout.final_values = rollout.new_array()
        leaves = split(self.leaves, finals.observations, self.device)
        memory = rollout.features[t, rows] if rollout.features is not None else None
        rollout.final_values[t, rows] = self._value(leaves, memory)
        if self.policy.core is not None:
            self.memory[rows] = self.memory[rows].masked_fill(finals.ended.unsqueeze(1), 0.0)

    # --- targets: advantages and returns --------------------------------------------------------------------------

    @torch.no_grad()
    def evaluate_rollout(self, values: Tensor | None = None) -> dict[str, Tensor]:
        """Values, log-probabilities, advantages and returns of the rollout, each [steps, envs]. The critic's `values`
        may be known already."""
        rollout = self.rollout
        values = self._values() if values is None else values
        next_values = torch.cat([values[1:], self._value(rollout.last, self.memory).unsqueeze(0)])
        if rollout.finals:  # the value after a truncated episode is the critic's
            steps, envs, leaves = rollout.joined_finals()
            memory = rollout.features[steps, envs] if rollout.features is not None else None
            next_values[steps, envs] = self._value(leaves, memory)
        if rollout.final_values is not None:
            next_values = torch.where(rollout.ended & ~rollout.terminated, rollout.final_values, next_values)
        rewards = rollout.rewards
        if self.scale is not None:
            self.scale.update(rewards, rollout.ended)
            rewards = self.scale.scale(rewards)
        return self.targets(rewards, values, next_values, rollout.terminated, rollout.ended)

    def targets(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> dict[str, Tensor]:
        """What is learned from the rollout; arguments are those of `gae`."""
        outcome = rewards, values, next_values, terminated, ended
        advantages = self.accelerator.advantages(*outcome)
        if advantages is None:
            advantages = gae(*outcome, self.options.gamma, self.options.gae_lambda)
        log_probs = self.acted_log_probs()
        return {"log_probs": log_probs, "advantages": advantages, "values": values, "returns": advantages + values}

    @torch.no_grad()
    def acted_log_probs(self) -> Tensor:
        """Log-probabilities with which the actions of the rollout were chosen, [steps, envs]. The weights must be those
        that have acted: a Gaussian's deviation is one of them."""
        rollout = self.rollout
        log_probs = self.head.log_prob(rollout.outputs.flatten(0, 1), rollout.actions.flatten(0, 1))
        return log_probs.reshape(rollout.length, rollout.envs)

    def _value(self, leaves: list[Tensor], memory: Tensor | None) -> Tensor:
        features = self._features(leaves, memory)
        values = self.accelerator.values(features)
        return (self.policy.critic(features) if values is None else values).reshape(len(features))

    def _features(self, leaves: list[Tensor], memory: Tensor | None = None) -> Tensor:
        """As the policy's, with an accelerated encoder."""
        encoded = self._encode(leaves)
        return encoded if self.policy.core is None else self.policy.core(encoded, memory)

    def _encode(self, leaves: list[Tensor]) -> Tensor:
        encoded = self.accelerator.encode(leaves)
        return self.policy.encoder(leaves) if encoded is None else encoded

    def _values(self) -> Tensor:
        """The critic's values of all observations of the rollout, [steps, envs], in parts that fit the cache."""
        rollout, parts = self.rollout, []
        if rollout.values is not None:
            return rollout.values
        if rollout.features is not None:  # a recurrent policy's were stored: computing them takes as long as acting
            return self.policy.critic(rollout.features).squeeze(-1)
        leaves = rollout.flat_leaves()
        size = max(1, len(leaves[0]) // self.minibatches)
        for part in zip(*(leaf.split(size) for leaf in leaves), strict=True):
            features = self._features(list(part))
            values = self.accelerator.values(features)
            parts.append(self.policy.critic(features) if values is None else values)
        return torch.cat(parts).reshape(rollout.length, -1)

    # --- loss -------------------------------------------------------------------------------------------------------

    def loss(
        self, minibatch: dict[str, Tensor], clip: float | Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The loss, and its parts: log-ratios, policy loss, value loss and entropy."""
        features = self.features(minibatch)
        if self.policy.core is not None:
            minibatch = {name: value.flatten(0, 1) for name, value in minibatch.items() if name != "memory"}
        outputs = self.policy.actor(features)
        if "masks" in minibatch:
            outputs = self.head.apply_mask(outputs, minibatch["masks"])
        log_ratio = self.head.log_prob(outputs, minibatch["actions"]) - minibatch["log_probs"]
        policy_loss = self._policy_loss(log_ratio.exp(), minibatch["advantages"], clip)
        value_loss = self._value_loss(self.policy.critic(features).squeeze(-1), minibatch)
        entropy = self.head.entropy(outputs)
        loss = policy_loss + self.options.value_weight * value_loss - self.options.entropy * entropy
        return loss, (log_ratio, policy_loss, value_loss, entropy)

    def features(self, minibatch: dict[str, Tensor]) -> Tensor:
        """The input of actor and critic; a recurrent core runs through the trajectories again."""
        leaves = [minibatch[f"leaf{k}"] for k in range(len(self.leaves))]
        if self.policy.core is None:
            return self._encode(leaves)
        encoded = self._encode([leaf.flatten(0, 1) for leaf in leaves])
        encoded = encoded.reshape(*minibatch["starts"].shape, -1)
        memory, features = minibatch["memory"][0], []
        for t, starts in enumerate(minibatch["starts"]):
            memory = self.policy.core(encoded[t], memory.masked_fill(starts.unsqueeze(1), 0.0))
            features.append(memory)
        return torch.cat(features)

    def _policy_loss(self, ratio: Tensor, advantages: Tensor, clip: float | Tensor) -> Tensor:
        if self.options.normalise_advantages and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return -torch.min(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip)).mean()

    def _value_loss(self, values: Tensor, minibatch: dict[str, Tensor]) -> Tensor:
        error = (values - minibatch["returns"]).square()
        if self.options.clip_values is not None:
            limit = self.options.clip_values
            near = minibatch["values"] + (values - minibatch["values"]).clamp(-limit, limit)
            error = torch.max(error, (near - minibatch["returns"]).square())
        return 0.5 * error.mean()

    # --- update -----------------------------------------------------------------------------------------------------

    def update(self) -> dict[str, float]:
        self.set_schedules()
        metrics = self.learn()
        self.rollout.clear()
        self.updates += 1
        return dict(zip(METRICS, metrics.tolist(), strict=True))

    def set_schedules(self) -> None:
        """The numbers of the next update that follow schedules; on a GPU tensors, which captured work reads."""
        self.adam.learning_rate = self.learning_rate
        clip = scheduled(self.options.clip, self.options.clip_schedule, self.progress)
        self.clip = self.clip.fill_(clip) if isinstance(self.clip, Tensor) else clip

    def learn(self) -> Tensor:
        """Learn from the full rollout; returns METRICS. On a GPU nothing is read back."""
        metrics = self.accelerator.update(self.clip)
        if metrics is None:
            metrics = self._learn()
        self.policy.encoder.update_normalisers(self.rollout.flat_leaves())
        return metrics

    def _learn(self) -> Tensor:
        samples = self.evaluate_rollout()
        epochs = EarlyStop(self.options.target_kl, self.device)
        for _ in range(self.options.epochs):
            self.adam.stop = epochs.stop
            for minibatch in self.rollout.minibatches(samples, self.minibatches, self.generator):
                latest = self.train_step(minibatch, self.clip)
            if epochs.ends_with(latest):
                break
        return epochs.metrics()

    def train_step(self, minibatch: dict[str, Tensor], clip: float | Tensor) -> Tensor:
        """One gradient step on a minibatch; returns its metrics in the order of METRICS."""
        metrics = self.accelerator.train_step(minibatch, clip)
        if metrics is not None:
            return metrics
        loss, (log_ratio, policy_loss, value_loss, entropy) = self.loss(minibatch, clip)
        grad_norm = self.adam.minimize(loss, self.options.max_grad_norm)
        with torch.no_grad():
            kl = (log_ratio.exp() - 1 - log_ratio).mean()
            return torch.stack([kl, policy_loss, value_loss, entropy, grad_norm])

    def workload(self) -> Callable[[], None]:
        leaves = self.zero_leaves(self.update_rows)
        memory = torch.zeros(self.update_rows, self.policy.memory_size, device=self.device)

        def work() -> None:
            features = self.policy.features(leaves, memory)
            (self.policy.actor(features).mean() + self.policy.critic(features).mean()).backward()

        return self.accelerator.workload() or work


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
