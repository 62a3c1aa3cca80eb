"""`rookery import-sb3`: an agent from the zip file of a Stable-Baselines3 model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import CheckpointError, FileError, OptionError
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.learners.learner import module_state, seeded
from rookery.learners.observations import Leaf
from rookery.learners.plain_spaces import to_tree
from rookery.learners.policy import make_leaves
from rookery.learners.registry import make_policy, specs
from rookery.training.resolve.world_choice import find
from rookery.training.sb3_models.sb3_archive import SB3Archive, read_sb3_archive
from rookery.training.sb3_models.sb3_networks import ReadNetworks, read_networks
from rookery.training.sb3_models.sb3_spaces import space_from_facts
from rookery.training.sb3_models.vecnormalize_stats import read_vecnormalize
from rookery.training.storage.load_agent import agent_from


@dataclass(frozen=True)
class ImportedAgent:
    """The agent, and what a user should know about how it differs from the model."""

    agent: Agent
    learner: str
    notes: tuple[str, ...]


def import_sb3(path: str | Path, env: str | None = None, vecnormalize: str | Path | None = None) -> ImportedAgent:
    """The agent of a PPO, SAC, DQN or TD3 model that Stable-Baselines3 saved, which need not be installed.

    Nothing in the file is unpickled: weights are read by torch's `weights_only=True`, the rest from JSON.

    Args:
        path: The zip file that `model.save(path)` wrote.
        env: The env that it was trained in, for the spaces of observations and actions; if omitted, they are read from
            the file, which is possible unless observations are a Dict.
        vecnormalize: An .npz or .json file with the statistics of its VecNormalize, if it was trained with that.

    Raises:
        FileError: The file is damaged, holds something else, or a model that no agent here can be.
    """
    allow_given(env)
    archive = read_sb3_archive(Path(path))
    observation_space, action_space = _spaces(archive, env)
    leaves = make_leaves(observation_space)
    networks = read_networks(archive, leaves)
    if vecnormalize is not None:
        _normalise(networks, leaves, Path(vecnormalize))
    return ImportedAgent(
        _agent(archive, networks, observation_space, action_space), networks.learner, tuple(networks.notes)
    )


def _spaces(archive: SB3Archive, env: str | None) -> tuple[spaces.Space, spaces.Space]:
    if env is not None:
        return find(env, twin=False).spaces
    observed, acted = (space_from_facts(archive.facts.get(f"{what}_space"), what) for what in ("observation", "action"))
    return observed, acted


def _normalise(networks: ReadNetworks, leaves: list[Leaf], path: Path) -> None:
    if len(leaves) != 1 or leaves[0].kind != "vector":
        raise OptionError("--vecnormalize is for observations that are one vector")
    networks.options["normalise_observations"] = True
    statistics = read_vecnormalize(path, leaves[0].width)
    networks.policy |= {f"encoder.norm.{name}": part for name, part in statistics.items()}


def _agent(archive: SB3Archive, networks: ReadNetworks, observed: spaces.Space, acted: spaces.Space) -> Agent:
    spec = specs()[networks.learner]
    if not spec.supports(acted) or np.any(getattr(acted, "start", 0)):
        raise FileError(f"{archive.name} cannot act in {acted}: {spec.needs}, and discrete actions start at 0")
    saved: dict[str, Any] = {
        "learner": networks.learner,
        "options": spec.options.model_validate(networks.options).model_dump(mode="json"),
        "policy": networks.policy,
        "observation_space": to_tree(observed),
        "action_space": to_tree(acted),
    }
    try:
        if networks.learner == "ppo" and "critic.layers.0.weight" not in networks.policy:
            networks.policy |= _new_critic(networks, observed, acted)
        return agent_from(saved)
    except CheckpointError as error:
        text = str(error).removeprefix("a checkpoint describes another agent than it holds: ")
        raise FileError(
            f"the weights of {archive.name} do not fit observations {observed} and actions {acted}: {text}"
        ) from None


def _new_critic(networks: ReadNetworks, observed: spaces.Space, acted: spaces.Space) -> dict[str, np.ndarray]:
    """A critic with initial weights, of the size of the actor."""
    with seeded(0):
        policy = make_policy("ppo", observed, acted, specs()["ppo"].options.model_validate(networks.options))
    return {name: part for name, part in module_state(policy).items() if name.startswith("critic.")}
