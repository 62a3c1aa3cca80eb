"""Agents in folders of their own, in the form of a checkpoint that holds an agent only: what `Agent.save` writes."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.errors import FileError
from rookery.gate import Reach, allow, reaches
from rookery.learners.agent import Agent
from rookery.learners.registry import option_classes
from rookery.learners.saved_agent import saved_agent
from rookery.training.storage.checkpoint import UNFINISHED, load, save
from rookery.training.storage.checkpoint_files import MALFORMED, MANIFEST


def write_agent(agent: Agent, folder: Path) -> Path:
    """Write an agent to a folder; an agent that is there is replaced when the new one is complete."""
    if not folder.name:
        raise FileError(f"{printable(folder)} cannot hold an agent: name a folder, such as 'my_agent'")
    tree = {"agent": saved_agent(agent)}
    if not folder.is_symlink() and holds_agent(folder):
        new, old = (folder.with_name(f"{UNFINISHED}{uuid.uuid4().hex}") for _ in range(2))
        save(new, tree)
        folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    elif folder.exists() or folder.is_symlink():
        raise FileError(f"{printable(folder)} exists already, and is no agent: nothing is written; choose another name")
    else:
        save(folder, tree)
    return folder


def holds_agent(folder: Path) -> bool:
    """Whether this is the folder of an agent or of a checkpoint."""
    return (folder / MANIFEST).is_file()


def read_agent(folder: Path, trust: bool = False) -> dict[str, Any]:
    """The part "agent" of such a folder; `trust` lets the code of the agent's own network be imported."""
    saved = load(folder, only=("agent",))["agent"]
    if trust:
        allow(reached_by_agent(saved))
    return saved


def reached_by_agent(saved: Any) -> list[Reach]:
    """What a saved agent's own description names outside: the code of its network."""
    try:
        options = option_classes()[saved["learner"]].model_validate(saved["options"])
    except MALFORMED:  # which loading it reports
        return []
    return list(reaches(options, playing=True, key="agent"))
