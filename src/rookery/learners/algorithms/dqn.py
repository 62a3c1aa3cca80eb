"""DQN: deep Q-learning for discrete actions, with four improvements that can each be switched off.

A network estimates the value of each action. Dueling: it estimates the value of the state and the advantage of each
action separately. Double: the network chooses the next action and a slowly following target network evaluates it.
n-step: several rewards are summed before the target network is used. Prioritised: transitions with a large error are
replayed more often, and weigh less each time, so that the estimate stays unbiased in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional as F

from rookery.errors import CheckpointError, OptionError
from rookery.learners.action_spaces import mask_of
from rookery.learners.encoders import make_encoder
from rookery.learners.execution.select import accelerate
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.heads import FORBIDDEN
from rookery.learners.learner import StepBatch, TensorFinals, Tree, seeded
from rookery.learners.networks import QNet, with_params_from
from rookery.learners.observations import MASK_KEY, split
from rookery.learners.offpolicy import Metrics, OffPolicyPolicy, where_rows
from rookery.learners.policy import FrozenActor, make_leaves
from rookery.learners.prioritised import PrioritisedOffPolicy
from rookery.learners.registry import DQNOptions
from rookery.learners.replay_buffer import ReplayBatch

METRICS_EVERY = 8  # updates between two that metrics are taken from
SPREAD = 7.0  # with epsilon_per_env, the last env's epsilon is the first one's to the power of 1 + this


class QPolicy(OffPolicyPolicy):
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


class DQN(PrioritisedOffPolicy):
    """Learns from replay, by default once for every four steps of an env."""

    options: DQNOptions
    policy: QPolicy
    metric_names = ("value", "error", "gradient")

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: DQNOptions,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        with seeded(seed):
            policy = QPolicy(observation_space, action_space, options).to(device)
        action = torch.zeros((), dtype=torch.int64)
        super().__init__(policy, observation_space, action_space, options, action, num_envs, seed, torch.device(device))
        self.adam = FlatAdam(policy.parameters(), options.learning_rate, compiled=options.accelerate)
        self.adams = [self.adam]
        self.target_weights = self.adam.flat.data.clone()
        self.target = with_params_from(policy, self.target_weights)
        self.target.encoder.share_normalisers(policy.encoder)
        self._masked = False  # whether masks were ever given
        self._epsilon_factor: float | Tensor = 1.0  # the product of `epsilon_decay` over all episodes
        self._epsilon: Tensor | None = None  # on a device, its present value without that factor
        self._epsilon_powers = self._powers()
        self.accelerator = accelerate(self)

    # --- collecting: act, and store transitions -------------------------------------------------------------------

    @torch.no_grad()
    def explore(self, observations: Any, rows: slice, mask: Any = None) -> Any:
        leaves = split(self.leaves, observations, self.device)
        noise = self.policy.sample_noise(leaves[0].shape[0], self.generator)
        if mask is not None:
            self.agent.check_mask(mask, len(noise))
            self._masked = True
            mask = torch.as_tensor(mask, device=self.device).bool().reshape(len(noise), -1)
        if self.steps < self.options.start_steps:
            actions = epsilon_greedy(noise[:, 1:], mask, None, 0.0)
        else:
            actions = epsilon_greedy(self.policy.forward(leaves), mask, noise, self.epsilon(rows))
        self.store_step(rows, leaves, actions)
        return self.to_env(observations, actions + self.policy.start if self.policy.start else actions)

    def epsilon(self, rows: slice) -> float | Tensor:
        """The present share of random actions, per env in `rows` if they differ."""
        options, epsilon = self.options, self._epsilon
        if options.epsilon_decay is not None:
            fallen = options.epsilon_start * self._epsilon_factor
            least = options.epsilon_end
            epsilon = fallen.clamp(min=least) if isinstance(fallen, Tensor) else max(least, fallen)
        elif epsilon is None:
            epsilon = self._scheduled_epsilon()
        return epsilon if self._epsilon_powers is None else (epsilon**self._epsilon_powers)[rows]

    def _scheduled_epsilon(self) -> float:
        options, done = self.options, min(1.0, self.steps / self.options.epsilon_steps)
        return options.epsilon_start + done * (options.epsilon_end - options.epsilon_start)

    def use_tensors(self) -> None:
        super().use_tensors()
        if self._epsilon is None:
            self._epsilon = torch.zeros((), device=self.device)
            self._epsilon_factor = torch.ones((), device=self.device)

    def begin_round(self) -> None:
        assert self._epsilon is not None
        self._epsilon.fill_(self._scheduled_epsilon())

    def _powers(self) -> Tensor | None:
        if not self.options.epsilon_per_env or self.num_envs == 1:
            return None
        return 1.0 + SPREAD * torch.linspace(0.0, 1.0, self.num_envs, device=self.device).unsqueeze(-1)

    def record_tensors(self, step: StepBatch) -> None:
        super().record_tensors(step)
        if self.options.epsilon_decay is not None:
            assert isinstance(self._epsilon_factor, Tensor)
            self._epsilon_factor.mul_(self.options.epsilon_decay ** (step.terminated | step.truncated).sum())

    def round_tensors(self) -> list[Tensor]:
        return super().round_tensors() + [x for x in (self._epsilon_factor,) if isinstance(x, Tensor)]

    def record(self, rows: slice, step: StepBatch) -> None:
        super().record(rows, step)
        if self.options.epsilon_decay is not None and self.rounds is None:
            episodes = int(np.count_nonzero(step.terminated | step.truncated))
            self._epsilon_factor *= self.options.epsilon_decay**episodes

    def _next_masks(self, step: StepBatch) -> Tensor | None:
        """The actions allowed next. After the last step of an episode all are, unless the final observation has a
        mask."""
        if not self._masked:
            return None
        rows, mask = len(step.rewards), step.mask
        if mask is not None:
            self.agent.check_mask(mask, rows)
        self.replay.store_masks(self.policy.actions)
        if self.rounds is not None:
            return self._next_mask_tensor(step, mask)
        allowed = np.ones((rows, self.policy.actions), np.bool_) if mask is None else np.array(mask, np.bool_)
        for row, last in zip(*step.finals, strict=True) if step.finals else ():
            final_mask = mask_of(last)
            allowed[row] = True if final_mask is None else final_mask
        return torch.from_numpy(allowed).to(self.device)

    def _next_mask_tensor(self, step: StepBatch, mask: Tensor | None) -> Tensor:
        assert self.rounds is not None
        self.rounds.store_masks(self.policy.actions)
        shape = len(step.rewards), self.policy.actions
        allowed = torch.ones(shape, dtype=torch.bool, device=self.device) if mask is None else mask.bool().view(shape)
        if not isinstance(step.finals, TensorFinals):
            return allowed
        last = step.finals.observations.get(MASK_KEY) if isinstance(step.finals.observations, dict) else None
        last = torch.ones_like(allowed) if last is None else last.bool().view(shape)
        return where_rows(step.finals.ended, last, allowed)

    # --- targets ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def td_target(
        self, batch: ReplayBatch, next_features: Tensor | None = None, next_values: Tensor | None = None
    ) -> Tensor:
        """Rewards, and the target network's value of the next action. An accelerator has already computed the encoder's
        `next_features` and, for double Q-learning, the network's own `next_values`."""
        if next_features is None:
            next_features = self.policy.encoder(batch.next_leaves)
            next_values = self.policy.net(next_features) if self.options.double else None
        if self.has_images:  # the target network has its own slowly following encoder
            next_features = self.target.encoder(batch.next_leaves)
        target_values = self.target.net(next_features)
        chooser = target_values if next_values is None else next_values
        best = epsilon_greedy(chooser, batch.next_masks, None, 0.0).unsqueeze(1)
        return torch.addcmul(self.scaled_rewards(batch), batch.discounts, target_values.gather(1, best).squeeze(1))

    # --- update -----------------------------------------------------------------------------------------------------

    def trained_tensors(self) -> list[Tensor]:
        return [*super().trained_tensors(), self.target_weights]

    def train_step(self, metrics: Metrics | None, number: int | None = None) -> None:
        number = self.updates + 1 if number is None else number
        indices, weights = self.sample_indices()
        td_target, td_error, grad_norm = self.gradient_step(self.replay.batch(indices), weights)
        self.update_priorities(indices, td_error)
        self.follow(self.target_weights, self.adam.flat.data, number)
        if metrics is not None and (self.device_updates is not None or self.updates % METRICS_EVERY == 0):
            metrics["value"].append(td_target.mean())
            metrics["error"].append(td_error.abs().mean())
            metrics["gradient"].append(grad_norm)

    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """One step of the optimizer; returns the TD targets, the TD errors and the gradient's norm."""
        result = self.accelerator.train_step(batch, weights)
        if result is not None:
            return result
        values = self.policy(batch.leaves).gather(1, batch.actions.unsqueeze(1)).squeeze(1)
        td_target = self.td_target(batch)
        loss = F.huber_loss if self.options.loss == "huber" else half_squared_loss
        losses = loss(values, td_target, reduction="none")
        grad_norm = self.adam.minimize(
            (losses if weights is None else losses * weights).mean(), self.options.max_grad_norm
        )
        return td_target, (values - td_target).detach(), grad_norm

    def workload(self) -> Callable[[], None]:
        leaves = self.zero_leaves(self.options.batch_size)
        return lambda: self.policy(leaves).mean().backward()

    # --- changes during a run ---------------------------------------------------------------------------------------

    def _options_changed(self) -> None:
        super()._options_changed()
        self.policy.epsilon = self.options.epsilon_end
        self._epsilon_powers = self._powers()

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        self._epsilon_powers = self._powers()

    # --- save and load ----------------------------------------------------------------------------------------------

    def load_weights(self, state: Tree) -> None:
        super().load_weights(state)
        self.target_weights.copy_(self.adam.flat.data)

    def state(self, replay: bool = True) -> Tree:
        target = {"target": self.target_weights.cpu().numpy().copy(), "adam": self.adam.state()}
        flags = {"masked": self._masked, "fallen": float(self._epsilon_factor)}
        return super().state(replay) | target | flags

    def load(self, state: Tree) -> None:
        waiting = state.get("pending") or state.get("rounds") or {"actions": []}
        for part in (waiting["actions"], state.get("replay", {"arrays": {}})["arrays"].get("actions", [])):
            if np.size(part) and not (np.min(part) >= 0 and np.max(part) < self.policy.actions):
                raise CheckpointError(f"saved actions are not among the {self.policy.actions} actions of this env")
        super().load(state)
        self.target_weights.copy_(torch.from_numpy(np.array(state["target"])))
        self.adam.load(state["adam"])
        self._masked, fallen = state["masked"], state.get("fallen", 1.0)
        factor = self._epsilon_factor
        self._epsilon_factor = factor.fill_(fallen) if isinstance(factor, Tensor) else fallen


def half_squared_loss(values: Tensor, targets: Tensor, reduction: str) -> Tensor:
    """Half the squared error, whose gradient is the error, as that of the Huber loss within 1."""
    return 0.5 * F.mse_loss(values, targets, reduction=reduction)
