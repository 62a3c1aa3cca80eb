"""PQN: parallelised Q-learning (Gallici et al., 2024, arXiv 2407.04811).

Collect `rollout_length` steps of every env, compute Q(lambda) returns backwards through them, fit the values of the
actions that were taken to these returns for a few epochs, and discard the rollout. There is neither a replay buffer nor
a target network: many envs make the samples diverse, and layer normalisation keeps the values from diverging.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.algorithms.ppo import gae
from rookery.learners.encoders import make_encoder
from rookery.learners.heads import head_for
from rookery.learners.learner import Learner
from rookery.learners.networks import MLP
from rookery.learners.policy import Policy, make_leaves
from rookery.learners.registry import PQNOptions

RANDOM = 1e8  # far above all values of actions, and far below what a mask subtracts
Minibatch = dict[str, Tensor]  # rows of a rollout by name


class PQNPolicy(Policy):
    """Values of all actions, by a layer-normalised perceptron over an encoder. The policy takes the action with the
    largest. Of several actions at once (MultiDiscrete), each has values of its own, and their sum is the value."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: PQNOptions) -> None:
        super().__init__()
        if not isinstance(action_space, (spaces.Discrete, spaces.MultiDiscrete)):
            raise OptionError(f"PQN cannot act in {action_space}; it takes Discrete and MultiDiscrete (PPO takes all)")
        self.leaves, self.options = make_leaves(observation_space), options
        self.head, self.epsilon = head_for(action_space, 0.0), options.epsilon_end
        self.sizes: list[int] = getattr(self.head, "sizes", [self.head.outputs])
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.net = MLP(self.encoder.width, options.hidden, self.head.outputs, options.activation, layer_norm=True)

    def forward(self, leaves: list[Tensor]) -> Tensor:
        """The values of all actions, [batch, actions]."""
        return self.net(self.encoder(leaves))

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        values = self(leaves)
        if mask is not None:
            values = self.head.apply_mask(values, mask)
        return self.head.to_env(self.head.mode(values if noise is None else values + noise)), None

    def best(self, values: Tensor) -> Tensor:
        """The value of the best action, [...], from those of all actions, [..., actions]."""
        return torch.stack([part.amax(-1) for part in values.split(self.sizes, -1)]).sum(0)

    def taken(self, values: Tensor, actions: Tensor) -> Tensor:
        """The values of actions, [batch]."""
        columns = actions.reshape(len(actions), -1)
        parts = [part.gather(-1, columns[:, k : k + 1]) for k, part in enumerate(values.split(self.sizes, -1))]
        return torch.cat(parts, -1).sum(-1)

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        uniform = torch.rand(rows, 1 + self.head.outputs, generator=generator, device=generator.device)
        return epsilon_noise(uniform, torch.tensor(self.epsilon))


def epsilon_noise(uniform: Tensor, epsilon: Tensor) -> Tensor:
    """What is added to the values of all actions, [..., actions], from numbers between 0 and 1, [..., 1 + actions]. In
    a share of `epsilon` of the rows it outweighs every value, so that the largest sum is that of a random action."""
    return torch.where(uniform[..., :1] < epsilon, uniform[..., 1:] * RANDOM, 0.0)


class PQN(Learner):
    """Learns from the steps of its present policy only."""

    on_policy = True
    options: PQNOptions
    policy: PQNPolicy
    metric_names = ("loss", "value", "gradient")

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> PQNPolicy:
        policy = PQNPolicy(observation_space, action_space, self.options).to(self.device)
        self.head, self.adam = policy.head, self.optimizer(policy.parameters(), eps=1e-5)
        return policy

    def parts(self) -> dict[str, Any]:
        return {"adam": self.adam}

    def options_changed(self) -> None:
        self.policy.epsilon = self.options.epsilon_end

    # --- acting and evaluating --------------------------------------------------------------------------------------

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The values of all actions, the actions that are taken, and features; `noise` is that of `exploration`."""
        features = self.features(leaves)
        values = self.outputs(features, mask)
        return values, self.head.mode(values + noise), features

    def encode(self, leaves: list[Tensor]) -> Tensor:
        """The encoder's output for the leaves of observations."""
        return self.policy.encoder(leaves)

    def features(self, leaves: list[Tensor], memory: Tensor | None = None) -> Tensor:
        """The input of the network."""
        return self.encode(leaves)

    def outputs(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """The values of all actions, with those of forbidden ones set."""
        values = self.policy.net(features)
        return values if mask is None else self.head.apply_mask(values, mask)

    def values(self, features: Tensor, mask: Tensor | None = None) -> Tensor:
        """Of states: those of the best actions."""
        return self.policy.best(self.outputs(features, mask))

    def epsilon(self, progress: float) -> float:
        """The share of random actions at this point of a run."""
        options, fallen = self.options, min(1.0, progress / self.options.epsilon_fraction)
        return options.epsilon_start + fallen * (options.epsilon_end - options.epsilon_start)

    def exploration(self, steps: int, envs: int, epsilon: Tensor) -> Tensor:
        """The noise of a rollout, [steps, envs, actions]."""
        shape = steps, envs, 1 + self.head.outputs
        return epsilon_noise(torch.rand(shape, generator=self.generator, device=self.generator.device), epsilon)

    # --- targets ----------------------------------------------------------------------------------------------------

    def targets(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> dict[str, Tensor]:
        """Q(lambda) returns, [steps, envs]: R(t) = r(t) + gamma (lambda R(t+1) + (1 - lambda) max Q(t+1)). The values
        are those of the best actions; the arguments are those of `gae`, of which these returns are the values plus."""
        return {"returns": values + self.advantages(rewards, values, next_values, terminated, ended)}

    def advantages(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> Tensor:
        """How far the returns are above the values."""
        return gae(rewards, values, next_values, terminated, ended, self.options.gamma, self.options.q_lambda)

    # --- loss -------------------------------------------------------------------------------------------------------

    def loss(self, minibatch: Minibatch) -> Tensor:
        """Half the mean squared error of the values of the actions that were taken."""
        values = self.policy.net(self.encode([minibatch[f"leaf{k}"] for k in range(len(self.leaves))]))
        return 0.5 * (self.policy.taken(values, minibatch["actions"]) - minibatch["returns"]).square().mean()

    def gradient_step(self, minibatch: Minibatch) -> Tensor:
        """One step of the optimizer on the loss; returns the metrics."""
        loss = self.loss(minibatch)
        grad_norm = self.adam.minimize(loss, self.options.max_grad_norm)
        return torch.stack([loss.detach(), minibatch["returns"].mean(), grad_norm])
