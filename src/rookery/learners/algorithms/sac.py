"""SAC: soft actor-critic, for continuous actions (Haarnoja et al., 2018).

An actor outputs a distribution of actions, two critics estimate their values, and the smaller estimate counts. Entropy
is rewarded, with a weight (the temperature) that is learned. All actions in this file lie between -1 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from rookery.errors import OptionError
from rookery.learners.action_spaces import ActionBounds
from rookery.learners.encoders import make_encoder
from rookery.learners.execution.device_noise import DeviceNoise
from rookery.learners.execution.select import accelerate
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.kernels.gpu.triton_support import find_triton
from rookery.learners.learner import Tree, seeded
from rookery.learners.networks import MLP, Critics, with_params_from
from rookery.learners.noise import Noise
from rookery.learners.observations import split
from rookery.learners.offpolicy import Metrics, OffPolicy, OffPolicyPolicy
from rookery.learners.policy import FrozenActor, make_leaves
from rookery.learners.registry import SACOptions
from rookery.learners.replay_buffer import ReplayBatch

LOG_STD = (-10.0, 2.0)


class SACPolicy(OffPolicyPolicy):
    """A Gaussian squashed by tanh; mean and standard deviation both depend on the observation."""

    by_kernels = False  # whether `sample` is computed by Triton kernels

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: SACOptions) -> None:
        super().__init__()
        self.leaves, self.options = make_leaves(observation_space), options
        self.bounds = ActionBounds(action_space, "SAC")
        self.size = self.bounds.size
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.net = MLP(self.encoder.width, options.hidden, 2 * self.size, options.activation, gain=0.01)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Means and logarithms of standard deviations, before squashing."""
        mean, log_std = self.net(features).chunk(2, -1)
        return mean, log_std.clamp(*LOG_STD)

    def sample(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Random actions and their log-probabilities."""
        if self.by_kernels:
            from rookery.learners.kernels.gpu.squash_kernels import SquashedSample

            return SquashedSample.apply(self.net(features), noise, *LOG_STD)
        mean, log_std = self(features)
        raw = mean + log_std.exp() * noise
        return raw.tanh(), squashed_log_prob(raw, log_std, noise)

    def sample_actions(self, features: Tensor, noise: Tensor) -> Tensor:
        """The actions alone."""
        if self.by_kernels:
            return self.sample(features, noise)[0]
        mean, log_std = self(features)
        return (mean + log_std.exp() * noise).tanh()

    def act(
        self, leaves: list[Tensor], mask: Tensor | None, noise: Tensor | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        refuse_mask(mask)
        mean, log_std = self(self.encoder(leaves))
        return self.bounds.to_env((mean if noise is None else mean + log_std.exp() * noise).tanh()), None

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, self.size, generator=generator, device=generator.device)

    def frozen_actor(self) -> FrozenActor:
        to_env, size = self.bounds.numpy_to_env(), self.size

        def to_actions(
            outputs: np.ndarray, noise: np.ndarray | None = None, mask: np.ndarray | None = None
        ) -> np.ndarray:
            refuse_mask(mask)
            raw = outputs[:, :size]
            if noise is not None:
                raw = raw + np.exp(np.clip(outputs[:, size:], *LOG_STD)) * noise
            return to_env(np.tanh(raw))

        return FrozenActor(self.net.layer_params, self.net.activation_name, to_actions)


def refuse_mask(mask: Any) -> None:
    """Masks are for discrete actions."""
    if mask is not None:
        raise OptionError("action masks need discrete actions; SAC's are continuous")


def squashed_log_prob(raw: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    """Log-probabilities of tanh(raw), [batch].

    The density shrinks by the derivative of tanh, 1 - tanh(x)^2, whose logarithm is 2 (log 2 - x - softplus(-2 x)): in
    that form no precision is lost where tanh comes close to 1.
    """
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    log_derivative = 2.0 * (math.log(2.0) - raw - F.softplus(-2.0 * raw))
    return (gaussian - log_derivative).sum(-1)


def first_log_temperature(options: SACOptions) -> float:
    """The logarithm of the initial temperature, or of the fixed one if it is given."""
    given = options.temperature
    return math.log(options.temperature_start if given == "auto" else max(given, 1e-8))


class SAC(OffPolicy):
    """Learns from replay, by default once for every step of an env."""

    options: SACOptions
    policy: SACPolicy
    weights = ("policy", "scale", "vectors")
    metric_names = ("critic", "value", "entropy", "temperature")

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: SACOptions,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        with seeded(seed):
            policy = SACPolicy(observation_space, action_space, options).to(device)
            critics = Critics(2, policy.encoder, policy.size, options.hidden, options.activation).to(device)
        action = torch.zeros(policy.size)
        super().__init__(policy, observation_space, action_space, options, action, num_envs, seed, torch.device(device))
        self.noise: Noise | DeviceNoise = Noise(options.noise, num_envs, policy.size, self.generator)
        learned = options.temperature == "auto"
        start = torch.tensor(first_log_temperature(options), device=device)
        self.log_temperature = nn.Parameter(start, requires_grad=learned)
        # The temperature is one more parameter of the actor's Adam: it has its own loss, and costs nothing.
        trained = [*policy.net.parameters(), *([self.log_temperature] if learned else [])]
        self.actor_adam = FlatAdam(trained, options.learning_rate, compiled=options.accelerate)
        self.critics = critics
        self.critic_adam = FlatAdam(critics.parameters(), options.learning_rate, compiled=options.accelerate)
        self.adams = [self.actor_adam, self.critic_adam]
        self.target_weights = self.critic_adam.flat.data.clone()
        self.targets = with_params_from(self.critics, self.target_weights)
        self.targets.encoder.share_normalisers(policy.encoder)
        # The same critics without gradients of their own, for the actor's loss.
        self.frozen_critics = with_params_from(self.critics, self.critic_adam.flat.data)
        self.accelerator = accelerate(self)
        policy.by_kernels = options.accelerate and self.device.type == "cuda" and find_triton()

    @property
    def target_entropy(self) -> float:
        """The entropy that a learned temperature aims at."""
        wish = self.options.target_entropy
        return -float(self.policy.size) if wish is None else wish

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
            actions = self.policy.sample_actions(self.policy.encoder(leaves), noise)
        self.store_step(rows, leaves, actions)
        return self.to_env(observations, self.policy.bounds.to_env(actions))

    # --- targets ----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def td_target(self, batch: ReplayBatch, noise: Tensor) -> Tensor:
        """Rewards, and the smaller value of the two target critics, with the entropy's reward."""
        features = self.policy.encoder(batch.next_leaves)
        actions, log_probs = self.policy.sample(features, noise)
        if self.has_images:  # the target critics have their own slowly following encoder
            features = self.targets.encoder(batch.next_leaves)
        next_values = self.targets(features, actions).amin(0) - self.log_temperature.exp() * log_probs
        return torch.addcmul(self.scaled_rewards(batch), batch.discounts, next_values)

    # --- losses -----------------------------------------------------------------------------------------------------

    def _critic_loss(self, values: Tensor, td_target: Tensor) -> Tensor:
        """Half the mean squared error of each critic, summed."""
        return 0.5 * F.mse_loss(values, td_target.expand(2, -1), reduction="sum") / len(td_target)

    def _actor_loss(self, features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the actor's and the temperature's losses, and the entropy."""
        actions, log_probs = self.policy.sample(features, noise)
        values = self.frozen_critics(features, actions).amin(0)
        loss = (self.log_temperature.detach().exp() * log_probs - values).mean()
        entropy = -log_probs.detach().mean()
        if self.log_temperature.requires_grad:
            loss = loss + self.log_temperature * (entropy - self.target_entropy)
        return loss, entropy

    # --- update -----------------------------------------------------------------------------------------------------

    def train_step(self, metrics: Metrics | None, number: int | None = None) -> None:
        options = self.options
        batch = self.replay.batch(self.replay.sample_indices(options.batch_size, self.generator))
        noise = torch.randn(2, options.batch_size, self.policy.size, generator=self.generator, device=self.device)
        values, td_target, entropy = self.gradient_step(batch, noise)
        self.target_weights.lerp_(self.critic_adam.flat.data, options.tau)
        if metrics is None:
            return
        metrics["critic"].append(self._critic_loss(values, td_target))
        metrics["value"].append(values.mean())
        metrics["entropy"].append(entropy)
        metrics["temperature"].append(self.log_temperature.detach().exp())

    def gradient_step(self, batch: ReplayBatch, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step of both optimizers; returns the values, the TD targets and the entropy."""
        result = self.accelerator.train_step(batch, noise)
        if result is not None:
            return result
        limit, features = self.options.max_grad_norm, self.policy.encoder(batch.leaves)
        values, td_target = self.critics(features, batch.actions), self.td_target(batch, noise[0])
        self.critic_adam.minimize(self._critic_loss(values, td_target), limit, norm=False)
        actor_loss, entropy = self._actor_loss(features.detach(), noise[1])
        self.actor_adam.minimize(actor_loss, limit, norm=False)
        return values.detach(), td_target, entropy

    def trained_tensors(self) -> list[Tensor]:
        return [*super().trained_tensors(), self.target_weights]

    def round_tensors(self) -> list[Tensor]:
        return super().round_tensors() + (self.noise.tensors if isinstance(self.noise, DeviceNoise) else [])

    def workload(self) -> Callable[[], None]:
        rows = self.options.batch_size
        leaves, actions = self.zero_leaves(rows), torch.zeros(rows, self.policy.size, device=self.device)
        return lambda: self.critics(self.policy.encoder(leaves), actions).mean().backward()

    # --- changes during a run ---------------------------------------------------------------------------------------

    def _options_changed(self) -> None:
        super()._options_changed()
        if self.options.temperature != "auto":
            self.log_temperature.data.fill_(first_log_temperature(self.options))

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        self.noise.resize(num_envs)

    # --- save and load ----------------------------------------------------------------------------------------------

    def state(self, replay: bool = True) -> Tree:
        vectors = {
            "critics": self.critic_adam.flat,
            "targets": self.target_weights,
            "temperature": self.log_temperature,
        }
        return super().state(replay) | {
            "vectors": {name: vector.detach().cpu().numpy().copy() for name, vector in vectors.items()},
            "actor_adam": self.actor_adam.state(),
            "critic_adam": self.critic_adam.state(),
            "noise": self.noise.state(),
        }

    def load(self, state: Tree) -> None:
        super().load(state)
        vectors = {name: torch.from_numpy(np.array(vector)) for name, vector in state["vectors"].items()}
        self.critic_adam.flat.data.copy_(vectors["critics"])
        self.target_weights.copy_(vectors["targets"])
        self.log_temperature.data.copy_(vectors["temperature"])
        self.actor_adam.load(state["actor_adam"])
        self.critic_adam.load(state["critic_adam"])
        self.noise.load(state["noise"])
