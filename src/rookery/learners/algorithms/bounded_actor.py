"""What SAC and TD3 have in common: an actor whose actions lie between -1 and 1, and an ensemble of critics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import OptionError
from rookery.learners.action_spaces import ActionBounds
from rookery.learners.encoders import make_encoder
from rookery.learners.learner import Learner, Tree, load_module
from rookery.learners.networks import MLP, Critics, EnsembleMLP, with_params_from
from rookery.learners.policy import Policy, make_leaves


class BoundedPolicy(Policy):
    """An actor over an encoder; its net has `outputs` for each dimension of the actions."""

    title: str  # of the learner, for messages
    outputs = 1

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, options: Any) -> None:
        super().__init__()
        self.leaves, self.options = make_leaves(observation_space), options
        self.bounds = ActionBounds(action_space, self.title)
        self.size = self.bounds.size
        self.encoder = make_encoder(observation_space, self.leaves, options)
        self.net = self.make_net(options)

    def make_net(self, options: Any) -> Any:
        """The net over the encoder."""
        return MLP(self.encoder.width, options.hidden, self.outputs * self.size, options.activation, gain=0.01)

    def to_env(self, actions: Tensor) -> Tensor:
        """Actions as the env takes them."""
        return self.bounds.to_env(actions)

    def sample_noise(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, self.size, generator=generator, device=generator.device)

    def refuse_mask(self, mask: Any) -> None:
        """Masks are for discrete actions."""
        if mask is not None:
            raise OptionError(f"action masks need discrete actions; {self.title}'s are continuous")


class BoundedActorCritic(Learner):
    """An actor with an ensemble of critics, each with an optimizer."""

    on_policy = False
    policy: Any
    weights = ("policy", "scale", "vectors")

    def add_networks(self, policy: BoundedPolicy, num_critics: int, learned: list[Any]) -> None:
        """Critics over the policy's encoder, and optimizers; `learned` is trained beside the actor's net."""
        options = self.options
        widths = options.hidden if options.critic_hidden is None else options.critic_hidden
        ensemble = self.make_ensemble(num_critics, policy.encoder.width + policy.size, widths)
        self.critics = Critics(policy.encoder, ensemble).to(self.device)
        self.actor_adam = self.optimizer([*policy.net.parameters(), *learned])
        self.critic_adam = self.optimizer(self.critics.parameters())
        self.target_weights = self.critic_adam.flat.data.clone()
        self.targets = with_params_from(self.critics, self.target_weights)
        self.targets.encoder.share_normalisers(policy.encoder)
        # The same critics without gradients of their own, for the actor's loss.
        self.frozen_critics = with_params_from(self.critics, self.critic_adam.flat.data)
        self.example_action = torch.zeros(policy.size)

    def make_ensemble(self, count: int, inputs: int, hidden: Sequence[int]) -> nn.Module:
        """The critics' nets."""
        return EnsembleMLP(count, inputs, hidden, self.options.activation)

    def random_actions(self, mask: Tensor | None, noise: Tensor) -> Tensor:
        """Before learning begins: uniform over the bounds, and as pink as the noise."""
        self.policy.refuse_mask(mask)
        return torch.erf(noise * math.sqrt(0.5))

    def parts(self) -> dict[str, Any]:
        vectors = {"critics": self.critic_adam.flat, "targets": self.target_weights, **self.more_vectors()}
        return {"vectors": vectors, "actor_adam": self.actor_adam, "critic_adam": self.critic_adam}

    def load_weights(self, state: Tree) -> None:
        super().load_weights(state)
        if "vectors" not in state:  # of an agent without critics: new ones, over its encoder, and new targets
            load_module(self.policy, state["policy"])
            self.follow(1.0)

    def more_vectors(self) -> dict[str, Tensor]:
        """What else is saved."""
        raise NotImplementedError
