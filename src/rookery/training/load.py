"""`rookery.load`: an agent from a run's checkpoint, without its world, learner or replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rookery.errors import RunError
from rookery.learners.agent import Agent
from rookery.learners.api import load_module
from rookery.learners.options import OPTIONS
from rookery.learners.registry import make_policy
from rookery.learners.space_tree import from_tree
from rookery.training.checkpoint import Checkpoints
from rookery.training.rundir import RunDir


def load(
    run: str | Path = "latest", runs_dir: str | Path = "runs", *, best: bool = False, device: str = "cpu"
) -> Agent:
    """The agent of a run, by its name, its path or as "latest": of its last checkpoint, or of its best.

    Its `act(observations, deterministic=True)` takes batches, and plays Gymnasium's own envs too.
    """
    return load_agent(RunDir.find(run, Path(runs_dir)), best, device)


def load_agent(run: RunDir, best: bool = False, device: str = "cpu") -> Agent:
    """As `load`, from a run that was found."""
    checkpoints = Checkpoints(run.checkpoints)
    _, tree = checkpoints.load_best(only=("agent",)) if best else checkpoints.load_latest(only=("agent",))
    return agent_from(tree["agent"], device)


def agent_from(saved: dict[str, Any], device: str = "cpu") -> Agent:
    """The agent that a checkpoint's part "agent" describes."""
    observation_space, action_space = from_tree(saved["observation_space"]), from_tree(saved["action_space"])
    options = OPTIONS[saved["learner"]].model_validate(saved["options"])
    policy = make_policy(saved["learner"], observation_space, action_space, options)
    load_module(policy, saved["policy"])
    return Agent(policy.to(device).eval(), observation_space, action_space, torch.device(device))


def check_fits(saved: dict[str, Any], agent: Agent) -> None:
    """Refuse to go on with a world whose observations or actions are others than when the checkpoint was written."""
    for name in ("observation_space", "action_space"):
        then, now = from_tree(saved[name]), getattr(agent, name)
        if then != now:
            what = name.replace("_", " ")
            raise RunError(
                f"the world has changed since the run was last at work: its {what} was {then}, and is {now} now. "
                "Change it back, or train anew"
            )
