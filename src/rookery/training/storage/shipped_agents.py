"""The trained agents that are installed with a world, in folders of the form of a checkpoint that holds an agent only.

`python -m rookery.training.storage.shipped_agents RUN FOLDER` makes such a folder from a run's best checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import CheckpointError, OptionError, RunError
from rookery.training.storage.checkpoint import Checkpoints, load, save
from rookery.training.storage.run_dir import RunDir
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.learners.agent import Agent
    from rookery.worlds.world_spec import WorldSpec


def shipped_tree(name: str | None = None) -> dict[str, Any]:
    """The part "agent" of the agent of this name (see `registry.agents`); if omitted, of the default game's agent."""
    known = registry.agents()
    name = name or registry.default_game().name
    if name not in known:
        raise OptionError(f"no agent {name!r} comes with rookery; there is {' or '.join(known)}")
    agent = known[name].agent
    assert agent is not None  # or it would not be known
    folder = agent.path
    if not folder.is_dir():
        raise CheckpointError(f"the agent {name!r} is missing from this installation: {folder} is not there")
    return load(folder, only=("agent",))["agent"]


def shipped_world(run: str | Path | None, runs_dir: str | Path) -> WorldSpec | None:
    """The world whose installed agent is meant by `run`: None means the default game's, a name that of its world unless
    there is a run of that name. None if a run is meant."""
    if run is None:
        return registry.default_game()
    known = registry.agents().get(str(run))
    if known is None:
        return None
    try:
        RunDir.find(run, Path(runs_dir))
    except RunError:
        return known
    return None


def shipped_agent(name: str | None = None) -> Agent:
    """As `shipped_tree`, ready to act."""
    return _agent_from(shipped_tree(name))


def agent_in(folder: Path) -> Agent:
    """The agent in a checkpoint's folder, or in one that `save_agent` has made."""
    return _agent_from(load(folder, only=("agent",))["agent"])


def _agent_from(tree: dict[str, Any]) -> Agent:
    from rookery.training.storage.load_agent import agent_from  # with torch, which players in NumPy do without

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
