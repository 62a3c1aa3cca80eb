"""Opponents for a person who plays a game, run without torch: agents that are installed with a world, runs, and agents
in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import CheckpointError, OptionError, RookeryError, RunError
from rookery.learners.plain_spaces import from_tree
from rookery.standalone import from_saved, runtime
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import Seat
from rookery.training.storage.checkpoint import Checkpoints, load
from rookery.training.storage.checkpoint_files import MALFORMED, MANIFEST, short_text
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import shipped_tree
from rookery.worlds import registry
from rookery.worlds.world_spec import WorldSpec

ONLY_ENV = np.zeros(1, np.int64)  # the number of the only env


class NumPyOpponent:
    """An agent, run by NumPy."""

    def __init__(self, name: str, agent: runtime.NumPyAgent) -> None:
        self.name, self._agent = name, agent

    def begin(self) -> None:
        """A game begins."""
        self._agent.reset()

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The continuous action for one observation."""
        return self._agent.act(observation)


class FileOpponent:
    """An agent in a Python file."""

    def __init__(self, spec: str, seat: Seat) -> None:
        self._player = FilePlayer(spec, seat)
        self.name = self._player.name

    def begin(self) -> None:
        self._player.begin(ONLY_ENV)

    def act(self, observation: np.ndarray) -> np.ndarray:
        return self._player.act(observation[None], ONLY_ENV)[0]


def find_opponent(
    who: str, runs_dir: str | Path = "runs", game: WorldSpec | None = None
) -> NumPyOpponent | FileOpponent:
    """Look up an opponent: an agent that is installed with a world, such as "agent", a run by its name or path, a
    checkpoint's folder, or `file.py:Agent`. If omitted, `game` is the registry's default game."""
    game = game or registry.default_game()
    shipped = registry.agents().get(who)
    if shipped is not None and shipped.agent is not None:
        return _opponent(shipped.agent.title, shipped_tree(who), game)
    if ".py:" in who:
        return FileOpponent(who, _seat(game))
    if os.path.isfile(os.path.join(who, MANIFEST)):
        return _opponent(Path(who).name, load(Path(who), only=("agent",))["agent"], game)
    try:
        run = RunDir.find(who, Path(runs_dir))
    except RunError as error:
        raise OptionError(
            f"there is no player {who!r}: give human, weak or strong, agent (the one that comes with rookery), a run, "
            f"a checkpoint's folder, or file.py:Agent; {error}"
        ) from error
    return _opponent(run.name, Checkpoints(run.checkpoints).load_latest(only=("agent",))[1]["agent"], game)


def _seat(game: WorldSpec) -> Seat:
    assert game.two_player is not None  # only two-player games have opponents
    return Seat(*game.two_player.load_spaces())


def _opponent(name: str, saved: dict[str, Any], game: WorldSpec) -> NumPyOpponent:
    try:
        return _seated(name, saved, game)
    except RookeryError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"{name}: a checkpoint describes no agent: {short_text(error)}") from error


def _seated(name: str, saved: dict[str, Any], game: WorldSpec) -> NumPyOpponent:
    sees, does, seat = from_tree(saved["observation_space"]), from_tree(saved["action_space"]), _seat(game)
    table = seat.in_numbers(does)
    if sees != seat.observation_space or (table is None and does != seat.action_space):
        raise OptionError(f"{name} cannot play {game.name}: its agent observes {sees} and acts in {does}")
    agent = from_saved(saved, {"name": name}, table)
    agent.act(np.zeros(seat.observation_space.shape or (), np.float32))  # arrays that do not fit raise now
    agent.reset()
    return NumPyOpponent(name, agent)
