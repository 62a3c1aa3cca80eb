"""Trained agents that act with NumPy alone: in this process, or as one file for any other program.

`runtime` is their code, `writer` makes their description from a checkpoint and writes the file. Neither needs
torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.standalone.runtime import NumPyAgent
from rookery.standalone.writer import describe

if TYPE_CHECKING:
    from rookery.learners.agent import Agent as TrainedAgent

__all__ = ["from_agent", "from_saved"]


def from_saved(
    saved: dict[str, Any], about: dict[str, Any] | None = None, table: np.ndarray | None = None
) -> NumPyAgent:
    """The agent that a checkpoint's part "agent" describes; see `describe`."""
    return NumPyAgent(*describe(saved, about or {"learner": saved["learner"]}, table))


def from_agent(agent: TrainedAgent, about: dict[str, Any] | None = None, table: np.ndarray | None = None) -> NumPyAgent:
    """The same agent without torch: `from_agent(rookery.load("latest")).act(observation)`.

    Unlike torch's, it takes single observations too, and its actions are deterministic unless asked otherwise.
    """
    from rookery.learners.saved_agent import saved_agent  # imports torch

    return from_saved(saved_agent(agent), about, table)
