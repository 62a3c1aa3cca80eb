"""Who can be asked to play hockey without torch: the agent that comes with rookery, runs, and agents in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import CheckpointError, OptionError, RookeryError, RunError
from rookery.learners.space_json import from_tree
from rookery.standalone import from_saved, runtime
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import Seat
from rookery.training.storage.checkpoint import Checkpoints, load
from rookery.training.storage.checkpoint_files import MANIFEST
from rookery.training.storage.malformed import MALFORMED, told
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import SHIPPED, shipped_tree
from rookery.worlds.hockey.world import VIEW

SEAT = Seat(VIEW, spaces.Box(-1, 1, (4,), np.float32))
ONLY = np.zeros(1, np.int64)  # the number of the only game there is


class NumPyOpponent:
    """An agent, run by NumPy."""

    def __init__(self, name: str, agent: runtime.NumPyAgent) -> None:
        self.name, self._agent = name, agent

    def begin(self) -> None:
        """A game begins."""
        self._agent.reset()

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The four numbers of hockey."""
        return self._agent.act(observation)


class FileOpponent:
    """An agent of somebody's own, in a file."""

    def __init__(self, place: str) -> None:
        self._player = FilePlayer(place, SEAT)
        self.name = self._player.name

    def begin(self) -> None:
        self._player.begin(ONLY)

    def act(self, observation: np.ndarray) -> np.ndarray:
        return self._player.act(observation[None], ONLY)[0]


def find_opponent(who: str, runs_dir: str | Path = "runs") -> NumPyOpponent | FileOpponent:
    """Look up who should play: "agent" (or "hockey"), a run by its name or path, a checkpoint's folder, or
    `file.py:Agent`."""
    if who in SHIPPED:
        return shipped_opponent()
    if ".py:" in who:
        return FileOpponent(who)
    if os.path.isfile(os.path.join(who, MANIFEST)):
        return _opponent(Path(who).name, load(Path(who), only=("agent",))["agent"])
    try:
        run = RunDir.find(who, Path(runs_dir))
    except RunError as error:
        raise OptionError(
            f"there is no player {who!r}: give human, weak or strong, agent (the one that comes with rookery), a run, "
            f"a checkpoint's folder, or file.py:Agent; {error}"
        ) from error
    return _opponent(run.name, Checkpoints(run.checkpoints).load_latest(only=("agent",))[1]["agent"])


def shipped_opponent() -> NumPyOpponent:
    """The agent that comes with rookery."""
    return _opponent("rookery's agent", shipped_tree())


def _opponent(name: str, saved: dict[str, Any]) -> NumPyOpponent:
    try:
        return _seated(name, saved)
    except RookeryError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"{name}: a checkpoint describes no agent: {told(error)}") from error


def _seated(name: str, saved: dict[str, Any]) -> NumPyOpponent:
    sees, does = from_tree(saved["observation_space"]), from_tree(saved["action_space"])
    table = SEAT.in_numbers(does)
    if sees != SEAT.observation_space or (table is None and does != SEAT.action_space):
        raise OptionError(f"{name} cannot play hockey: its agent observes {sees} and acts in {does}")
    agent = from_saved(saved, {"name": name}, table)
    agent.act(np.zeros(SEAT.observation_space.shape or (), np.float32))  # arrays that do not fit are told of now
    agent.reset()
    return NumPyOpponent(name, agent)
