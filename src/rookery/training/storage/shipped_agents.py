"""The agents that come with rookery, in folders of the form of a checkpoint that holds an agent and nothing else.

`python -m rookery.training.storage.shipped_agents RUN FOLDER` makes such a folder from a run's best checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import CheckpointError, OptionError
from rookery.training.storage.checkpoint import Checkpoints, load, save
from rookery.training.storage.run_dir import RunDir

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

AGENTS = Path(__file__).parents[2] / "agents"
SHIPPED = {"hockey": "hockey", "agent": "hockey"}  # what they are called, and their folders


def shipped_tree(name: str = "hockey") -> dict[str, Any]:
    """The part "agent" of the agent of this name that comes with rookery."""
    if name not in SHIPPED:
        raise OptionError(f"no agent {name!r} comes with rookery; there is {' or '.join(SHIPPED)}")
    folder = AGENTS / SHIPPED[name]
    if not folder.is_dir():
        raise CheckpointError(f"the agent {name!r} is missing from this installation: {folder} is not there")
    return load(folder, only=("agent",))["agent"]


def shipped_agent(name: str = "hockey") -> Agent:
    """The agent of this name that comes with rookery."""
    return _agent_from(shipped_tree(name))


def agent_in(folder: Path) -> Agent:
    """The agent in a checkpoint's folder, or in one that `save_agent` has made."""
    return _agent_from(load(folder, only=("agent",))["agent"])


def _agent_from(tree: dict[str, Any]) -> Agent:
    from rookery.training.storage.load_agent import agent_from  # with torch, which those who play by NumPy do without

    return agent_from(tree)


def save_agent(agent: dict[str, Any], folder: Path) -> None:
    """Write a checkpoint's part "agent" to a new folder."""
    save(folder, {"agent": agent})


def main(arguments: list[str]) -> None:
    """Make a folder from a run."""
    if len(arguments) != 2:
        sys.exit("usage: python -m rookery.training.storage.shipped_agents RUN FOLDER")
    run = RunDir.find(arguments[0], Path("runs"))
    step, tree = Checkpoints(run.checkpoints).load_best(only=("agent",))
    save_agent(tree["agent"], Path(arguments[1]))
    print(f"{arguments[1]} holds the agent of {run.name} at step {step:,}")


if __name__ == "__main__":
    main(sys.argv[1:])
