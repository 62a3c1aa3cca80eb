"""TD3: twin delayed deep deterministic policy gradients (Fujimoto et al., 2018), for continuous actions.

A deterministic actor is trained to maximise what a critic estimates. Three changes make that stable: of two critics the
smaller value is the target; the actor and the target networks are updated less often than the critics; and noise on the
target actions keeps the critics smooth. All actions in this file lie between -1 and 1.

REDQ (Chen et al., 2021) is the same algorithm with many updates per step. Against the bias that this brings, it has an
ensemble of critics, and takes the target from a random few of them. The option `redq` sets its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.action_spaces import ActionBounds
from rookery.learners.encoders import make_encoder
from rookery.learners.execution.device_noise import DeviceNoise
from rookery.learners.execution.select import accelerate
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import Tree, seeded
from rookery.learners.networks import MLP, Critics, with_params_from
from rookery.learners.noise import Noise
from rookery.learners.observations import split
from rookery.learners.offpolicy import Metrics, OffPolicyPolicy
from rookery.learners.policy import FrozenActor, make_leaves
from rookery.learners.prioritised import PrioritisedOffPolicy
from rookery.learners.registry import TD3Options
from rookery.learners.replay_buffer import ReplayBatch

FIRST = slice(0, 1)  # the critic that trains TD3's actor
Network = Callable[..., Tensor]


class TD3Policy(OffPolicyPolicy):
    """A deterministic actor, squashed by tanh. Its random actions have Gaussian noise of `exploration_noise`."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: TD3Options) -> None:
        super().__init__()
        self.leaves, self.options = make_leaves(observation_space), options
        self.bounds = ActionBounds(action_space, "TD3")
        self.size, self.std = self.bounds.size, options.exploration_noise
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.net = MLP(self.encoder.width, options.hidden, self.size, options.activation, gain=0.01)

    def forward(self, features: Tensor, noise: Tensor | None = None) -> Tensor:
        """Actions [batch, size] for features, with noise of standard deviation 1 or without."""
        actions = self.net(features).tanh()
        return actions if noise is None else (actions + self.std * noise).clamp(-1.0, 1.0)

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        refuse_mask(mask)
        return self.bounds.to_env(self(self.encoder(leaves), noise)), None

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, self.size, generator=generator, device=generator.device)

    def frozen_actor(self) -> FrozenActor:
        to_env, std = self.bounds.numpy_to_env(), self.std

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            refuse_mask(mask)
            actions = np.tanh(outputs)
            return to_env(actions if noise is None else np.clip(actions + std * noise, -1.0, 1.0))

        return FrozenActor(self.net.layer_params, self.net.activation_name, to_actions)


def refuse_mask(mask: Any) -> None:
    """Masks are for discrete actions."""
    if mask is not None:
        raise OptionError("action masks need discrete actions; TD3's are continuous")


class TD3(PrioritisedOffPolicy):
    """Learns from replay, by default once for every step of an env."""

    options: TD3Options
    policy: TD3Policy
    weights = ("policy", "scale", "vectors")
    metric_names = ("critic", "value", "actor")

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: TD3Options,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        with seeded(seed):
            policy = TD3Policy(observation_space, action_space, options).to(device)
            critics = Critics(options.num_critics, policy.encoder, policy.size, options.hidden, options.activation)
        action = torch.zeros(policy.size)
        super().__init__(policy, observation_space, action_space, options, action, num_envs, seed, torch.device(device))
        self.noise: Noise | DeviceNoise = Noise(options.noise, num_envs, policy.size, self.generator)
        self.critics = critics.to(device)
        self.actor_adam = FlatAdam(policy.net.parameters(), options.learning_rate, compiled=options.accelerate)
        self.critic_adam = FlatAdam(critics.parameters(), options.learning_rate, compiled=options.accelerate)
        self.adams = [self.actor_adam, self.critic_adam]
        self.target_actor_weights = self.actor_adam.flat.data.clone()
        self.target_actor = with_params_from(policy.net, self.target_actor_weights)
        self.target_weights = self.critic_adam.flat.data.clone()
        self.targets = with_params_from(self.critics, self.target_weights)
        self.targets.encoder.share_normalisers(policy.encoder)
        # The same critics without gradients of their own, for the actor's loss.
        self.frozen_critics = with_params_from(self.critics, self.critic_adam.flat.data)
        self.accelerator = accelerate(self)

    def use_tensors(self) -> None:
        super().use_tensors()
        if isinstance(self.noise, Noise):
            self.noise = DeviceNoise(self.options.noise, self.num_envs, self.policy.size, self.generator)

    # --- collecting -------------------------------------------------------------------------------------------------

    def begin_round(self) -> None:
        self.noise.begin_round()

    @torch.no_grad()
    def explore(self, observations: Any, rows: slice, mask: Any = None) -> Any:
        refuse_mask(mask)
        leaves = split(self.leaves, observations, self.device)
        noise = self.noise.sample(rows)
        if self.steps < self.options.start_steps:
            actions = torch.erf(noise * math.sqrt(0.5))  # uniform over the bounds, and as pink as the noise
        else:
            actions = self.policy(self.policy.encoder(leaves), noise)
        self.store_step(rows, leaves, actions)
        return self.to_env(observations, self.policy.bounds.to_env(actions))

    # --- targets ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def td_target(self, batch: ReplayBatch, actor: Network | None = None, critics: Network | None = None) -> Tensor:
        """Rewards, and the target critics' value of the target actor's action, with clipped noise on it. An accelerator
        brings its own target actor and critics."""
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
        return torch.addcmul(self.scaled_rewards(batch), batch.discounts, next_values)

    def _chosen_critics(self) -> Tensor | None:
        """The critics whose smallest value is the target: all, or for REDQ a random few."""
        count, chosen = self.options.num_critics, self.options.min_critics
        if chosen >= count:
            return None
        if self.device.type == "cpu":
            return torch.randperm(count, generator=self.generator)[:chosen]
        return torch.rand(count, generator=self.generator, device=self.device).topk(chosen).indices

    # --- losses -----------------------------------------------------------------------------------------------------

    def _critic_loss(self, td_error: Tensor, weights: Tensor | None) -> Tensor:
        """Half the mean squared TD error of each critic, summed; prioritised samples have importance weights."""
        squares = td_error.square() if weights is None else td_error.square() * weights
        return 0.5 * squares.sum() / td_error.shape[1]

    def _actor_loss(self, features: Tensor) -> Tensor:
        """Minus the value of the actor's own actions: by the first critic, or by the mean of REDQ's ensemble."""
        return -self.frozen_critics(features, self.policy(features), self.actor_critics).mean()

    @property
    def actor_critics(self) -> slice | None:
        """The critics that train the actor; None for all."""
        return FIRST if self.options.num_critics <= 2 else None

    # --- update -----------------------------------------------------------------------------------------------------

    @property
    def update_cycle(self) -> int:
        return self.options.policy_delay

    def trained_tensors(self) -> list[Tensor]:
        return [*super().trained_tensors(), self.target_weights, self.target_actor_weights]

    def round_tensors(self) -> list[Tensor]:
        return super().round_tensors() + (self.noise.tensors if isinstance(self.noise, DeviceNoise) else [])

    def train_step(self, metrics: Metrics | None, number: int | None = None) -> None:
        number = self.updates + 1 if number is None else number
        indices, weights = self.sample_indices()
        update_actor = number % self.options.policy_delay == 0
        values, td_error, actor_loss = self.gradient_step(self.replay.batch(indices), weights, update_actor)
        self.update_priorities(indices, td_error.abs().mean(0))
        self.follow(self.target_weights, self.critic_adam.flat.data, number)
        self.follow(self.target_actor_weights, self.actor_adam.flat.data, number)
        if metrics is None:
            return
        metrics["critic"].append(self._critic_loss(td_error, weights))
        metrics["value"].append(values.mean())
        if actor_loss is not None:
            metrics["actor"].append(actor_loss)

    def gradient_step(
        self, batch: ReplayBatch, weights: Tensor | None, update_actor: bool
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step of the critics' optimizer, and of the actor's if it is due; returns the values, the TD errors and
        the actor's loss."""
        result = self.accelerator.train_step(batch, weights, update_actor)
        if result is not None:
            return result
        td_target, features = self.td_target(batch), self.policy.encoder(batch.leaves)
        values = self.critics(features, batch.actions)
        td_error = values - td_target
        self.critic_adam.minimize(self._critic_loss(td_error, weights), self.options.max_grad_norm, norm=False)
        actor_loss = None
        if update_actor:
            actor_loss = self._actor_loss(features.detach())
            self.actor_adam.minimize(actor_loss, self.options.max_grad_norm, norm=False)
            actor_loss = actor_loss.detach()
        return values.detach(), td_error.detach(), actor_loss

    def workload(self) -> Callable[[], None]:
        rows = self.options.batch_size
        leaves, actions = self.zero_leaves(rows), torch.zeros(rows, self.policy.size, device=self.device)
        return lambda: self.critics(self.policy.encoder(leaves), actions).mean().backward()

    # --- changes during a run ---------------------------------------------------------------------------------------

    def _options_changed(self) -> None:
        super()._options_changed()
        self.policy.std = self.options.exploration_noise

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        self.noise.resize(num_envs)

    # --- save and load ----------------------------------------------------------------------------------------------

    def _vectors(self) -> dict[str, Tensor]:
        """The weights that the policy does not hold."""
        return {
            "critics": self.critic_adam.flat.data,
            "targets": self.target_weights,
            "target_actor": self.target_actor_weights,
        }

    def state(self, replay: bool = True) -> Tree:
        return super().state(replay) | {
            "vectors": {name: vector.cpu().numpy().copy() for name, vector in self._vectors().items()},
            "actor_adam": self.actor_adam.state(),
            "critic_adam": self.critic_adam.state(),
            "noise": self.noise.state(),
        }

    def load(self, state: Tree) -> None:
        super().load(state)
        for name, vector in self._vectors().items():
            vector.copy_(torch.from_numpy(np.array(state["vectors"][name])))
        self.actor_adam.load(state["actor_adam"])
        self.critic_adam.load(state["critic_adam"])
        self.noise.load(state["noise"])
