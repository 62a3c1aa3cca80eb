"""`rookery dataset`: episodes of a run's agent as a Minari dataset."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.engine.settings import positive_int
from rookery.errors import MissingExtra, OptionError
from rookery.learners.agent import Agent
from rookery.learners.learner import seeded
from rookery.learners.observations import split
from rookery.learners.registry import PPOOptions, make_policy
from rookery.training.evaluation.trained_run import AgentOrRun, TrainedRun, open_run
from rookery.training.resolve.world_choice import num_agents, without_training_options
from rookery.training.storage.load_agent import write_agent


def load_minari() -> Any:
    try:
        import h5py  # noqa: F401 - what its files are
        import minari
    except ImportError as error:
        raise MissingExtra(f"datasets need Minari ({error}): pip install 'rookery[minari]'") from None
    return minari


def write_dataset(
    run: AgentOrRun,
    dataset_id: str,
    runs_dir: str | Path = "runs",
    episodes: int = 100,
    seed: int | None = None,
    best: bool = True,
    deterministic: bool | None = None,
    trust: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Any:
    """Play complete episodes with a run's agent, in one env of its world, and write them to Minari's folder.

    Args:
        run: An agent, the result of `rookery.train`, or a run by its name, its path or as "latest".
        dataset_id: Such as "cartpole/ppo-v0".
        seed: Of the first episode; the next ones have the integers that follow. If omitted, that of evaluations.
        deterministic: Take deterministic actions; if omitted, as in the run's own evaluations.

    Returns:
        The `minari.MinariDataset`.
    """
    minari = load_minari()
    positive_int("episodes", episodes)
    if dataset_id in minari.list_local_datasets():
        raise OptionError(f"there is a dataset {dataset_id!r} already: give another name, or a higher version")
    trained = open_run(run, runs_dir, best, trust=trust)
    if num_agents(trained.world) != 1:
        raise OptionError(f"{trained.world.name} is a game of two: datasets have episodes of one agent")
    if deterministic is None:
        deterministic = trained.agent.deterministic
    seed = trained.seed if seed is None else seed
    env = without_training_options(trained.world).factory.make(0)
    buffers = []
    try:
        trained.agent.seed(seed)
        for k in range(episodes):
            buffers.append(play_episode(minari, trained.agent, env, k, seed + k, deterministic))
            progress(k + 1)
    finally:
        env.close()
    return _write(minari, dataset_id, buffers, trained)


def play_episode(minari: Any, agent: Any, env: gym.Env, number: int, seed: int, deterministic: bool) -> Any:
    """One complete episode as Minari has it: one observation more than actions."""
    observation, info = env.reset(seed=seed)
    agent.reset_memory()
    observations, actions, rewards, terminations, truncations = [observation], [], [], [], []
    over = False
    while not over:
        mask = info.get("action_mask")
        action = agent.act(observation, deterministic=deterministic, mask=None if mask is None else mask[None])
        observation, reward, terminated, truncated, info = env.step(action)
        observations.append(observation)
        actions.append(action)
        rewards.append(float(reward))
        terminations.append(bool(terminated))
        truncations.append(bool(truncated))
        over = terminated or truncated
    return minari.data_collector.EpisodeBuffer(
        id=number, seed=seed, observations=columns(observations), actions=columns(actions), rewards=rewards,
        terminations=terminations, truncations=truncations,
    )  # fmt: skip


def columns(steps: list[Any]) -> Any:
    """Values of steps, each of them nested, as one nested value of lists.

    >>> columns([{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}])
    {'a': [1, 4], 'b': ([2, 5], [3, 6])}
    """
    if isinstance(steps[0], dict):
        return {key: columns([step[key] for step in steps]) for key in steps[0]}
    if isinstance(steps[0], tuple):
        return tuple(columns([step[k] for step in steps]) for k in range(len(steps[0])))
    return [np.array(step) if isinstance(step, np.ndarray) and step.ndim else step for step in steps]


def _write(minari: Any, dataset_id: str, buffers: list[Any], trained: TrainedRun) -> Any:
    agent, world = trained.agent, trained.config.world
    known = world in gym.registry and not trained.config.world_options and not trained.config.wrappers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about an author and links, which are the user's to add
        return minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            env=gym.spec(world) if known else None,
            algorithm_name=f"rookery {trained.saved['agent']['learner']}, step {trained.step}",
            observation_space=agent.observation_space,
            action_space=agent.action_space,
        )


FLAT = spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box


class ClonedAgent(NamedTuple):
    """The agent, and how often it does what the dataset shows."""

    agent: Agent
    steps: int
    agreement: float  # of discrete actions, their share that is the same; of continuous ones, minus the mean error


def clone(
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
