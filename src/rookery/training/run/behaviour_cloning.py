"""`rookery clone`: an agent that does what a Minari dataset shows, with which a run can begin."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.learners.agent import Agent
from rookery.learners.learner import seeded
from rookery.learners.observations import split
from rookery.learners.registry import PPOOptions, make_policy
from rookery.training.export.minari_dataset import load_minari
from rookery.training.storage.agent_folder import write_agent

FLAT = spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box


class ClonedAgent(NamedTuple):
    """The agent, and how often it does what the dataset shows."""

    agent: Agent
    steps: int
    agreement: float  # of discrete actions, their share that is the same; of continuous ones, minus the mean error


def clone_dataset(
    dataset_id: str,
    epochs: int = 20,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    hidden: tuple[int, ...] = (64, 64),
    seed: int = 0,
) -> ClonedAgent:
    """Behaviour cloning: maximise the log-probability of the actions in a local Minari dataset.

    The agent is PPO's. Its critic has not learned anything, as rewards are not used.
    """
    dataset = load_minari().load_dataset(dataset_id)
    observed, acted = dataset.observation_space, dataset.action_space
    positive_int("epochs", epochs)
    positive_int("batch_size", batch_size)
    if not isinstance(acted, FLAT):
        raise OptionError(f"actions of {dataset_id} are {acted}; behaviour cloning takes Discrete, Box and the like")
    options = PPOOptions(hidden=list(hidden), learning_rate=learning_rate)
    with seeded(seed):
        policy = make_policy("ppo", observed, acted, options)
    leaves, actions = _steps(dataset, policy, acted)
    _fit(policy, leaves, actions, epochs, batch_size, learning_rate, seed)
    agent = Agent(policy.eval(), observed, acted, torch.device("cpu"))
    agent.writer = write_agent
    return ClonedAgent(agent, len(actions), _agreement(policy, leaves, actions))


def _steps(dataset: Any, policy: Any, acted: spaces.Space) -> tuple[list[Tensor], Tensor]:
    """Observations and the actions chosen in them, of all episodes; an episode's last observation has no action."""
    parts: list[list[Tensor]] = []
    actions: list[np.ndarray] = []
    for episode in dataset.iterate_episodes():
        seen = split(policy.leaves, episode.observations, torch.device("cpu"))
        parts.append([leaf[: len(episode.actions)] for leaf in seen])
        actions.append(np.asarray(episode.actions))
    taken = np.concatenate(actions) - np.asarray(getattr(acted, "start", 0))
    kind = policy.head.dtype
    return [torch.cat(leaf) for leaf in zip(*parts, strict=True)], torch.as_tensor(taken).to(kind)


def _fit(
    policy: Any, leaves: list[Tensor], actions: Tensor, epochs: int, batch_size: int, learning_rate: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam([*policy.encoder.parameters(), *policy.actor.parameters(), *policy.head.parameters()],
                            lr=learning_rate)  # fmt: skip
    for _ in range(epochs):
        for rows in torch.randperm(len(actions), generator=generator).split(batch_size):
            outputs = policy.actor(policy.features([leaf[rows] for leaf in leaves]))
            loss = -policy.head.log_prob(outputs, actions[rows]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()


@torch.no_grad()
def _agreement(policy: Any, leaves: list[Tensor], actions: Tensor) -> float:
    chosen = policy.head.mode(policy.actor(policy.features(leaves)))
    if actions.dtype.is_floating_point:
        return -float((chosen - actions).abs().mean())
    same = (chosen == actions).reshape(len(actions), -1).all(1)
    return float(same.float().mean())
