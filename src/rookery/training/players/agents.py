"""Players of two-player games: agents, agents in files, and the scripts of a world."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from rookery.console import silent
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError, RunError
from rookery.learners.agent import Agent
from rookery.learners.frozen_policy import PackedPolicy, forward_pass, freeze
from rookery.learners.policy import Policy
from rookery.training.players import file_player
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import SCRIPTS, Seat
from rookery.training.storage.checkpoint_files import MANIFEST
from rookery.training.storage.load_agent import load_agent
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import agent_in, shipped_agent
from rookery.worlds import registry

BLOCK = 256  # steps for which noise is sampled at once: about as long as a game


@dataclass(frozen=True)
class Script:
    """A scripted player. It is not a `Player`: the world plays it itself; "none" does nothing."""

    name: str

    @property
    def parameter(self) -> str:
        """The value of the world's parameter `player_one` or `player_two`."""
        return "free" if self.name == "none" else self.name


class Player(Protocol):
    """Acts for one seat in any number of envs, which are given by their numbers."""

    name: str

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        """Games begin in these envs: reset the memory of them. With `seeds`, one per env, random actions in a game
        follow from its seed alone."""

    def act(self, observations: np.ndarray, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Actions [k, ...] of the seat, for observations [k, ...] of these k envs. `mask` says which are allowed; it is
        given in worlds with action masks only."""


class AgentPlayer:
    """An agent, as it is now or at the last `refresh()`.

    Its actions in a game depend on the game's seed and observations alone, bit for bit, not on the other games in the
    batch.
    """

    def __init__(
        self,
        agent: Agent,
        name: str,
        *,
        deterministic: bool = True,
        seed: int = 0,
        actions: np.ndarray | None = None,
        copy: bool = True,
    ) -> None:
        """`actions` translates discrete actions: row k is the seat's action for the agent's action k. Without `copy`,
        the agent's weights must not change while it plays."""
        self.name, self.deterministic, self.seed = name, deterministic, seed
        self._freeze = freeze if copy else forward_pass
        self._agent, self._actions = agent, actions
        self._generator = torch.Generator()
        self._begun = 0
        self._seeds, self._clock = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._noise: np.ndarray | None = None
        self._memory = np.zeros((0, agent.policy.memory_size), np.float32)
        self.refresh()

    def refresh(self) -> None:
        """Act as the agent does now; games continue."""
        self._frozen = self._freeze(self._agent.policy)

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        envs = np.asarray(envs)
        self._make_room(int(envs.max(initial=-1)) + 1)
        if seeds is None:
            seeds = [child_seed(self.seed, self._begun + k) for k in range(len(envs))]
        self._begun += len(envs)
        self._seeds[envs], self._clock[envs], self._memory[envs] = seeds, 0, 0.0

    @property
    def agent(self) -> Agent:
        """Who plays."""
        return self._agent

    @property
    def policy(self) -> Policy:
        """The agent's policy."""
        return self._agent.policy

    def memory(self, envs: np.ndarray) -> np.ndarray | None:
        """What a recurrent agent remembers of the games in these envs; None of others."""
        return self._memory[envs] if self._memory.shape[1] else None

    @property
    def packed(self) -> PackedPolicy | None:
        """The perceptron that acts, for compiled loops; None if another kind of policy acts."""
        return self._frozen if isinstance(self._frozen, PackedPolicy) and self._actions is None else None

    @property
    def action_table(self) -> np.ndarray | None:
        """What the agent's discrete actions are translated to, if they are."""
        return self._actions

    @property
    def action_space(self) -> spaces.Space:
        """Of the agent, before its actions are translated."""
        return self._agent.action_space

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> Any:
        noise = None if self.deterministic else self._noise_for(envs)
        memory = self.memory(envs)
        actions, remembered = self._frozen(observations, noise, memory, mask)
        if remembered is not None:
            self._memory[envs] = remembered
        return self._agent.nested(actions) if self._actions is None else self._actions[actions]

    def state(self) -> dict[str, Any]:
        """Everything that decides how its games continue, except the agent itself."""
        return {"begun": self._begun, "seeds": self._seeds, "clock": self._clock, "memory": self._memory}

    def load(self, state: dict[str, Any]) -> None:
        self._begun = state["begun"]
        self._seeds, self._clock, self._memory = (np.array(state[key]) for key in ("seeds", "clock", "memory"))
        self._noise = None
        for env in range(0 if self.deterministic else len(self._seeds)):
            self._sample_noise(env)

    def _make_room(self, count: int) -> None:
        missing = count - len(self._seeds)
        if missing > 0:
            self._seeds, self._clock = (np.pad(x, (0, missing)) for x in (self._seeds, self._clock))
            self._memory = np.pad(self._memory, ((0, missing), (0, 0)))

    def _noise_for(self, envs: np.ndarray) -> np.ndarray:
        """The next noise of each game."""
        at = self._clock[envs] % BLOCK
        if not at.all():
            for env in envs[at == 0].tolist():
                self._sample_noise(env)
        self._clock[envs] += 1
        assert self._noise is not None
        return self._noise[envs, at]

    def _sample_noise(self, env: int) -> None:
        """The block of noise that this env's game is in, by the game's seed and the block's number."""
        number = int(self._clock[env]) // BLOCK
        block = noise_block(self._agent.policy, int(self._seeds[env]), number, self._generator).numpy()
        if self._noise is None or len(self._noise) < len(self._seeds):
            grown = np.zeros((len(self._seeds), *block.shape), block.dtype)
            if self._noise is not None:
                grown[: len(self._noise)] = self._noise
            self._noise = grown
        self._noise[env] = block


def noise_block(policy: Policy, seed: int, number: int, generator: torch.Generator) -> torch.Tensor:
    """The noise of the random actions of BLOCK steps, by the game's seed and the number of the block in the game."""
    return policy.sample_noise(BLOCK, generator.manual_seed(child_seed(seed, number)))


def find_player(who: str, seat: Seat, runs_dir: str | Path = "runs", *, deterministic: bool = True) -> Player | Script:
    """Look a player up: a script of the world (none, weak, strong), "random" (random actions), an agent that is
    installed with a world (see `registry.agents`), a run by its name or path, the folder of a checkpoint, or
    `file.py:Agent`."""
    if who.lower() in SCRIPTS:
        return Script(SCRIPTS[who.lower()])
    if who == file_player.NAME:
        return file_player.RandomPlayer(seat)
    if ".py:" in who:
        return FilePlayer(who, seat)
    agent, name = _find_agent(who, Path(runs_dir))
    return seated(agent, name, seat, deterministic=deterministic)


def check_player(who: str, runs_dir: str | Path = "runs") -> None:
    """Refuse a player that does not exist. Nothing is loaded, so whether it fits is checked later."""
    path = who.rpartition(":")[0]
    if path.endswith(".py"):
        if not os.path.isfile(path):
            raise OptionError(f"{who!r}: there is no file {path!r}")
    elif (
        who.lower() not in SCRIPTS
        and who not in (file_player.NAME, *registry.agents())
        and not os.path.isfile(os.path.join(who, MANIFEST))
    ):
        _find_run(who, Path(runs_dir))


def seated(agent: Agent, name: str, seat: Seat, *, deterministic: bool = True, seed: int = 0) -> AgentPlayer:
    """An agent as a player, if it fits the seat. One with a game's discrete actions fits a seat with its
    continuous ones, which they are translated to."""
    actions = None
    if agent.action_space != seat.action_space:
        actions = seat.in_numbers(agent.action_space)
        if actions is None:
            raise _does_not_fit(name, "acts in", agent.action_space, seat.action_space)
    if agent.observation_space != seat.observation_space:
        raise _does_not_fit(name, "observes", agent.observation_space, seat.observation_space)
    return AgentPlayer(agent, name, deterministic=deterministic, seed=seed, actions=actions)


def _does_not_fit(name: str, does: str, mine: spaces.Space, theirs: spaces.Space) -> OptionError:
    return OptionError(f"{name} cannot play here: its agent {does} {mine}, and a player of this game has {theirs}")


def _find_agent(who: str, runs_dir: Path) -> tuple[Agent, str]:
    shipped = registry.agents().get(who)
    if shipped is not None:
        return shipped_agent(who), shipped.name
    if os.path.isfile(os.path.join(who, MANIFEST)):
        return agent_in(Path(who)), _folder_name(Path(who))
    run = _find_run(who, runs_dir)
    with silent():
        return load_agent(run), run.name


def _find_run(who: str, runs_dir: Path) -> RunDir:
    try:
        return RunDir.find(who, runs_dir)
    except RunError as error:
        raise OptionError(
            f"there is no player {who!r}: give none, weak or strong (scripts), random, "
            f"{' or '.join(registry.agents())} (comes with rookery), a run, a checkpoint's folder, or file.py:Agent; "
            f"{error}"
        ) from error


def _folder_name(folder: Path) -> str:
    """A short name for the agent in a folder.

    >>> _folder_name(Path("runs/first/checkpoints/step-000000001024")), _folder_name(Path("agents/champion"))
    ('first-step-000000001024', 'champion')
    """
    folder = folder.absolute()
    return f"{folder.parent.parent.name}-{folder.name}" if folder.parent.name == "checkpoints" else folder.name
