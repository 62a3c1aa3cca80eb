"""DQN: deep Q-learning for discrete actions, with four improvements that can each be switched off.

A network estimates the value of each action. Dueling: it estimates the value of the state and the advantage of each
action separately. Double: the network chooses the next action and a slowly following target network evaluates it.
n-step: several rewards are summed before the target network is used. Prioritised: transitions with a large error are
replayed more often, and weigh less each time, so that the estimate stays unbiased in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional as F

from rookery.errors import OptionError
from rookery.learners.encoders import make_encoder
from rookery.learners.heads import FORBIDDEN
from rookery.learners.learner import Learner, Tree
from rookery.learners.networks import QNet, with_params_from
from rookery.learners.policy import FrozenActor, Policy, make_leaves
from rookery.learners.registry import DQNOptions
from rookery.learners.replay_buffer import ReplayBatch

Step = tuple[Tensor, Tensor, Tensor]  # of a gradient step: TD targets, TD errors, the gradient's norm


class QPolicy(Policy):
    """Values of all actions; the policy takes the action with the largest."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: DQNOptions) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            raise OptionError(
                f"DQN cannot act in {action_space}; it takes Discrete (SAC takes a Box, PPO all of these)"
            )
        self.leaves, self.options = make_leaves(observation_space), options
        self.actions, self.start = int(action_space.n), int(action_space.start)
        self.epsilon = options.epsilon_end
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.net = QNet(self.encoder.width, options.hidden, self.actions, options.activation, options.dueling)

    def forward(self, leaves: list[Tensor]) -> Tensor:
        """The values of all actions, [batch, actions]."""
        return self.net.forward(self.encoder.forward(leaves))

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        return epsilon_greedy(self(leaves), mask, noise, self.epsilon) + self.start, None

    def to_env(self, actions: Tensor) -> Tensor:
        """Actions as the env takes them."""
        return actions + self.start if self.start else actions

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.rand(rows, 1 + self.actions, generator=generator, device=generator.device)

    def frozen_actor(self) -> FrozenActor:
        start, epsilon = self.start, self.epsilon

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            values = outputs if noise is None else np.where(noise[:, :1] < epsilon, noise[:, 1:], outputs)
            if mask is not None:
                values = np.where(mask.reshape(values.shape), values, np.float32(FORBIDDEN))
            return values.argmax(1) + start

        return FrozenActor(self.net.as_perceptron(), self.net.activation_name, to_actions)


def epsilon_greedy(values: Tensor, mask: Tensor | None, noise: Tensor | None, epsilon: float | Tensor) -> Tensor:
    """The best action; where the first column of `noise` is below `epsilon`, a random one, by its other columns."""
    if noise is not None:
        values = torch.where(noise[:, :1] < epsilon, noise[:, 1:], values)
    if mask is not None:
        values = values.masked_fill(~mask, FORBIDDEN)
    return values.argmax(-1)


class DQN(Learner):
    """Learns from replay, by default once for every four steps of an env."""

    on_policy = False
    options: DQNOptions
    policy: QPolicy
    metric_names = ("value", "error", "gradient")
    metrics_every = 8  # updates

    # --- networks ---------------------------------------------------------------------------------------------------

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> QPolicy:
        policy = QPolicy(observation_space, action_space, self.options).to(self.device)
        self.adam = self.optimizer(policy.parameters())
        self.target_weights = self.adam.flat.data.clone()
        self.target = with_params_from(policy, self.target_weights)
        self.target.encoder.share_normalisers(policy.encoder)
        self.example_action = torch.zeros((), dtype=torch.int64)
        return policy

    # --- acting -----------------------------------------------------------------------------------------------------

    def act(self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor, epsilon: float | Tensor) -> Tensor:
        """The best actions, a share of `epsilon` of them replaced by random ones."""
        return epsilon_greedy(self.policy.forward(leaves), mask, noise, epsilon)

    def random_actions(self, mask: Tensor | None, noise: Tensor, epsilon: float | Tensor) -> Tensor:
        """Before learning begins."""
        return epsilon_greedy(noise[:, 1:], mask, None, 0.0)

    # --- targets ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def td_target(
        self, batch: ReplayBatch, next_features: Tensor | None = None, next_values: Tensor | None = None
    ) -> Tensor:
        """Rewards, and the target network's value of the next action. The encoder's `next_features` may be known
        already, and with them, for double Q-learning, the network's own `next_values`."""
        if next_features is None:
            next_features = self.policy.encoder(batch.next_leaves)
            next_values = self.policy.net(next_features) if self.options.double else None
        if self.has_images:  # the target network has its own slowly following encoder
            next_features = self.target.encoder(batch.next_leaves)
        target_values = self.target.net(next_features)
        chooser = target_values if next_values is None else next_values
        best = epsilon_greedy(chooser, batch.next_masks, None, 0.0).unsqueeze(1)
        next_value = target_values.gather(1, best).squeeze(1)
        return torch.addcmul(self.scaled_rewards(batch.rewards), batch.discounts, next_value)

    # --- loss and gradient step -------------------------------------------------------------------------------------

    def loss(self, values: Tensor, td_target: Tensor, weights: Tensor | None) -> Tensor:
        """The mean loss of TD errors: Huber, or half the square, whose gradient is that of Huber within 1."""
        if self.options.loss == "huber":
            losses = F.huber_loss(values, td_target, reduction="none")
        else:
            losses = 0.5 * F.mse_loss(values, td_target, reduction="none")
        return (losses if weights is None else losses * weights).mean()

    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> Step:
        """One step of the optimizer; `weights` are those of importance."""
        values = self.policy(batch.leaves).gather(1, batch.actions.unsqueeze(1)).squeeze(1)
        td_target = self.td_target(batch)
        grad_norm = self.adam.minimize(self.loss(values, td_target, weights), self.options.max_grad_norm)
        return td_target, (values - td_target).detach(), grad_norm

    def td_errors(self, step: Step) -> Tensor:
        """How wrong the network was about each transition."""
        return step[1]

    def follow(self, share: float | Tensor) -> None:
        """Let the target network take a share of the trained weights."""
        self.target_weights.lerp_(self.adam.flat.data, share)

    def metrics(self, step: Step, weights: Tensor | None) -> dict[str, Tensor]:
        """Of a gradient step."""
        td_target, td_error, grad_norm = step
        return {"value": td_target.mean(), "error": td_error.abs().mean(), "gradient": grad_norm}

    # --- changes during a run, save and load ------------------------------------------------------------------------

    def options_changed(self) -> None:
        self.policy.epsilon = self.options.epsilon_end

    def parts(self) -> dict[str, Any]:
        return {"target": self.target_weights, "adam": self.adam}

    def load_weights(self, state: Tree) -> None:
        super().load_weights(state)
        self.target_weights.copy_(self.adam.flat.data)
