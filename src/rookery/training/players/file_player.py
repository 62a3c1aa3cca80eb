"""Players in Python files of their own, as people bring them to a tournament."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import CheckpointError, OptionError, RookeryError, RunError, SpaceError
from rookery.learners.plain_spaces import from_tree
from rookery.standalone import from_saved, runtime
from rookery.training.resolve.seats import Seat
from rookery.training.storage.checkpoint import agents_of, load
from rookery.training.storage.checkpoint_files import MALFORMED, MANIFEST, short_text
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import shipped_tree
from rookery.user_code import load_file, written_in
from rookery.worlds import registry
from rookery.worlds.world_spec import WorldSpec


class FilePlayer:
    """`file.py:Agent`: a class that is called without arguments, once per env. It has `act(obs)` for one observation
    and, optionally, `reset()` for the start of a game. In worlds with action masks, an `act(obs, action_mask)` gets
    the mask too."""

    def __init__(self, spec: str, seat: Seat) -> None:
        path, _, attribute = spec.rpartition(":")
        self.name, self._spec, self._seat = f"{Path(path).stem}.{attribute}", spec, seat
        self._make = _find_class(spec)
        self._instances: dict[int, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Elsewhere it is made from its file again, without the games that it plays."""
        path, _, attribute = self._spec.rpartition(":")
        return FilePlayer, (f"{Path(path).absolute()}:{attribute}", self._seat)

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        for env in envs.tolist():
            if env not in self._instances:
                self._instances[env] = self._new()
            reset = getattr(self._instances[env], "reset", None)
            if callable(reset):
                reset()

    def act(self, observations: np.ndarray, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        numbers = envs.tolist()
        takes_mask = mask is not None and _takes_mask(self._instances[numbers[0]].act)
        masks = [{"action_mask": row.copy()} for row in mask] if takes_mask and mask is not None else [{}] * len(envs)
        return np.stack(
            [
                self._checked(self._instances[env].act(observation.copy(), **allowed))
                for env, observation, allowed in zip(numbers, observations, masks, strict=True)
            ]
        )

    def _new(self) -> Any:
        try:
            made = self._make()
        except TypeError as error:
            raise OptionError(f"{self._spec} should take no arguments: {error}") from error
        if not callable(getattr(made, "act", None)):
            raise OptionError(f"{self._spec} should have a method act(obs)")
        return made

    def _checked(self, action: Any) -> np.ndarray:
        """An action in the seat's space; clipped to its bounds, as is usual in such tournaments."""
        space = self._seat.action_space
        try:
            numbers = np.asarray(action, np.float64)
        except (TypeError, ValueError):
            raise SpaceError(f"{self._spec}: act(obs) should return numbers for {space}, got {action!r}") from None
        if numbers.shape != space.shape:
            raise SpaceError(f"{self._spec}: act(obs) should return numbers of shape {space.shape}, got {action!r}")
        if not np.isfinite(numbers).all():
            raise SpaceError(f"{self._spec}: act(obs) should return finite numbers, got {action!r}")
        if isinstance(space, spaces.Box):
            return np.clip(numbers, space.low, space.high).astype(space.dtype)
        if not space.contains(chosen := numbers.astype(space.dtype)) or (chosen != numbers).any():
            raise SpaceError(f"{self._spec}: act(obs) should return an action in {space}, got {action!r}")
        return chosen


def _takes_mask(act: Callable[..., Any]) -> bool:
    try:
        return "action_mask" in inspect.signature(act).parameters
    except (TypeError, ValueError):  # not written in Python
        return False


def _find_class(spec: str) -> Callable[[], Any]:
    """The class or function at `file.py:Agent`."""
    path, _, attribute = spec.rpartition(":")
    if not os.path.isfile(path):
        raise OptionError(f"{spec!r}: there is no file {path!r}")
    module = load_file(path, "opponents")
    found = getattr(module, attribute, None)
    if not callable(getattr(found, "act", None)) and not written_in(path, found):
        known = [name for name, item in vars(module).items() if callable(getattr(item, "act", None))]
        raise OptionError(
            f"{spec!r}: {path} has no class {attribute!r}; with a method act there are: {known or 'none'}"
        )
    return found  # type: ignore[return-value]


NAME = "random"
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of SplitMix64


class RandomPlayer:
    """Draws each action uniformly from those that are allowed. It depends on the game's seed and the number of the step
    alone, not on the other games in the batch."""

    name = NAME

    def __init__(self, seat: Seat) -> None:
        self._space: Any = seat.action_space
        self._seeds, self._clock = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._begun = 0

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        envs = np.asarray(envs)
        missing = int(envs.max(initial=-1)) + 1 - len(self._seeds)
        if missing > 0:
            self._seeds, self._clock = (np.pad(x, (0, missing)) for x in (self._seeds, self._clock))
        self._seeds[envs] = np.arange(self._begun, self._begun + len(envs)) if seeds is None else seeds
        self._clock[envs] = 0
        self._begun += len(envs)

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        draws = self._draws(envs, int(np.prod(self._space.shape or ())))
        if isinstance(self._space, spaces.Discrete):
            return _choices(draws[:, 0], int(self._space.n), mask) + self._space.start
        if isinstance(self._space, spaces.MultiDiscrete):
            ends = np.cumsum(self._space.nvec)
            masks = [None] * len(ends) if mask is None else np.split(mask, ends[:-1], axis=1)
            parts = [_choices(draws[:, k], int(n), masks[k]) for k, n in enumerate(self._space.nvec)]
            return np.stack(parts, axis=1).astype(self._space.dtype) + self._space.start
        low = np.where(np.isfinite(self._space.low), self._space.low, -1.0)
        high = np.where(np.isfinite(self._space.high), self._space.high, np.maximum(low, 0.0) + 1.0)
        return (low + draws * (high - low)).astype(self._space.dtype)

    def state(self) -> dict[str, Any]:
        """Everything that decides how its games continue."""
        return {"begun": self._begun, "seeds": self._seeds, "clock": self._clock}

    def load(self, state: dict[str, Any]) -> None:
        self._begun = state["begun"]
        self._seeds, self._clock = np.array(state["seeds"]), np.array(state["clock"])

    def _draws(self, envs: np.ndarray, count: int) -> np.ndarray:
        """The next uniform numbers in [0, 1) of each game, [envs, count]."""
        at = self._clock[envs, None] * count + np.arange(count)
        self._clock[envs] += 1
        return _uniform(self._seeds[envs, None].astype(np.uint64), at.astype(np.uint64))


def _uniform(seeds: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Numbers in [0, 1), by a seed and a position each: SplitMix64, which mixes all bits of both."""
    with np.errstate(over="ignore"):
        bits = _mixed(_mixed(seeds + GOLDEN) + (at + np.uint64(1)) * GOLDEN)
    return (bits >> np.uint64(11)) * 2.0**-53


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _choices(draws: np.ndarray, count: int, mask: np.ndarray | None) -> np.ndarray:
    """One of `count` choices in each row, among those that its mask allows; of a row that allows none, any.

    >>> _choices(np.array([0.0, 0.99, 0.5]), 4, np.array([[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]], bool)).tolist()
    [1, 3, 2]
    """
    if mask is None:
        return (draws * count).astype(np.int64)
    allowed = np.where(mask.any(axis=1, keepdims=True), mask, True)
    wanted = (draws * allowed.sum(axis=1)).astype(np.int64)  # the number of the chosen one among the allowed ones
    return np.argmax(np.cumsum(allowed, axis=1) > wanted[:, None], axis=1)


ONLY_ENV = np.zeros(1, np.int64)  # the number of the only env


class NumPyOpponent:
    """An agent, run by NumPy."""

    def __init__(self, name: str, agent: runtime.NumPyAgent) -> None:
        self.name, self._agent = name, agent

    def begin(self) -> None:
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
    return _opponent(run.name, agents_of(run.name, run.checkpoints).load_latest(only=("agent",))[1]["agent"], game)


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
