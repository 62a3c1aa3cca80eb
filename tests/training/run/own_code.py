"""Code such as users write for their runs: networks and a schedule."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn


class Features(nn.Module):
    """An encoder of vectors."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 12) -> None:
        super().__init__()
        self.features_dim = features_dim
        self.layers = nn.Sequential(nn.Linear(observation_space.shape[0], features_dim), nn.Tanh())

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations)


class Both(nn.Module):
    """An actor and a critic over a dict of observations."""

    def __init__(self, observation_space: spaces.Dict, action_space: spaces.Discrete) -> None:
        super().__init__()
        width = sum(part.shape[0] for part in observation_space.values())
        self.policy, self.value = nn.Linear(width, int(action_space.n)), nn.Linear(width, 1)

    def actor(self, observations: dict[str, Tensor]) -> Tensor:
        return self.policy(torch.cat(list(observations.values()), 1))

    def critic(self, observations: dict[str, Tensor]) -> Tensor:
        return self.value(torch.cat(list(observations.values()), 1)).squeeze(-1)


class Residual(nn.Module):
    """Layers, functions and a sum, written in the three ways that people write them."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 12) -> None:
        super().__init__()
        self.features_dim = features_dim
        self.first, self.second = (
            nn.Linear(observation_space.shape[0], features_dim),
            nn.Linear(features_dim, features_dim),
        )
        self.norm = nn.LayerNorm(features_dim)

    def forward(self, observations: Tensor) -> Tensor:
        hidden = torch.relu(self.first(observations))
        return self.norm(hidden + self.second(hidden).tanh())


class Two(nn.Module):
    """An actor and a critic over one vector."""

    def __init__(self, observation_space: spaces.Box, action_space: spaces.Discrete) -> None:
        super().__init__()
        width = observation_space.shape[0]
        self.actor = nn.Sequential(nn.Linear(width, 8), nn.SiLU(), nn.Linear(8, int(action_space.n)))
        self.critic = nn.Linear(width, 1)


class Unwritable(Features):
    """Does what no standalone file can."""

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations).softmax(1)


class Narrow(Features):
    """Says that it is wider than it is."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space)
        self.features_dim = 13


class Unsized(nn.Module):
    """Does not say how wide it is."""

    def __init__(self, observation_space: Any) -> None:
        super().__init__()


def halved(progress: float) -> float:
    return 0.5 if progress > 0.4 else 1.0


def falling(remaining: float) -> float:
    """A learning rate as Stable-Baselines3 has it."""
    return 1e-3 * remaining


def no_network(observation_space: Any) -> None:
    """A function."""
