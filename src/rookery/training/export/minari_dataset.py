"""`rookery dataset`: episodes of a run's agent as a Minari dataset."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.engine.settings import positive_int
from rookery.errors import MissingExtra, OptionError
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.training.resolve.world_choice import num_agents, without_training_options


def load_minari() -> Any:
    """Import Minari."""
    try:
        import h5py  # noqa: F401 - what its files are
        import minari
    except ImportError as error:
        raise MissingExtra(f"datasets need Minari ({error}): pip install 'rookery[minari]'") from None
    return minari


def write_dataset(
    run: str | Path,
    dataset_id: str,
    runs_dir: str | Path = "runs",
    episodes: int = 100,
    seed: int | None = None,
    best: bool = False,
    deterministic: bool | None = None,
    trust: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> Any:
    """Play complete episodes with a run's agent, in one env of its world, and write them to Minari's folder.

    Args:
        run: Its name in `runs_dir`, its path, or "latest".
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
