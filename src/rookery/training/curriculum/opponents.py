"""The opponents of a run that are policies: copies of the agent, past agents, other runs' agents, agents in files.

Each has a number, and acts in one batch for all envs that it plays in. Copies are shared by all games that begin at
about the same time, so that there are few of them.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np

from rookery.errors import CheckpointError, OptionError
from rookery.learners.agent import Agent
from rookery.learners.learner import Learner, Tree, load_module, module_state
from rookery.training.league.league import League
from rookery.training.players.agents import AgentPlayer, Player, Script, Seat, find_player, seated
from rookery.training.players.file_player import RandomPlayer

SCRIPTED = -1  # the number of an opponent that the world itself plays, or that does nothing
SAVED = (AgentPlayer, RandomPlayer)  # players whose games can be saved and resumed
COPY_EVERY = 128  # steps per env for which new games get the same copy of the agent: a game of 250 steps spans two


class Opponents:
    """The opponents of all envs, and their actions."""

    def __init__(self, learner: Learner, seat: Seat, runs_dir: Path, league: League) -> None:
        self.league = league
        self.seat = seat
        self._learner, self._runs_dir = learner, runs_dir
        self._numbers: dict[str, int] = {}  # by key: a name, and whether its actions are deterministic
        self._players: dict[int, Player] = {}
        self._weights: dict[str, Tree] = {}  # of copies, which no file contains
        self._next = 0
        self._copied_at = {"self": -1, "latest": -1}  # steps
        self._copied_after = {"self": -1, "latest": -1}  # updates
        self._loaded: dict[tuple[str, bool], Player] = {}
        self._named: set[str] = {*league.baselines}  # by the config

    def check(self, who: str, deterministic: bool) -> None:
        """Refuse an opponent that cannot be found or does not fit, before the first step."""
        if who not in ("self", "latest", "archive"):
            self._named.add(who)
            self._load_player(who, deterministic)

    def number_for(self, who: str, deterministic: bool, steps: int) -> int:
        """The number of an opponent for a game that begins now: "self", "latest", a member of the league, or any that
        `find_player` knows."""
        name = self._current_copy(who, steps) if who in self._copied_at else who
        key = f"{name}|{int(deterministic)}"
        if key not in self._numbers:
            self._numbers[key], self._next = self._next, self._next + 1
            self._players[self._numbers[key]] = self._make_player(name, deterministic)
        return self._numbers[key]

    def begin_game(self, number: int, env: int, seed: int) -> None:
        self._players[number].begin(np.array([env]), [seed])

    def resume_game(self, number: int, env: int, seed: int) -> None:
        """Continue a game after a resume; an opponent whose memory was not saved starts over."""
        if not isinstance(self._players[number], SAVED):
            self.begin_game(number, env, seed)

    def act(self, views: np.ndarray, numbers: np.ndarray, masks: np.ndarray | None = None) -> np.ndarray:
        """Actions for all envs, given the opponents' observations, numbers and action masks; `SCRIPTED` ones do
        nothing."""
        nothing = self.seat.nothing
        actions = np.full((len(views), *nothing.shape), nothing, nothing.dtype)
        for number in set(numbers.tolist()) - {SCRIPTED}:
            envs = np.flatnonzero(numbers == number)
            allowed = () if masks is None else (masks[envs],)
            actions[envs] = self._players[number].act(views[envs], envs, *allowed)
        return actions

    def drop_unused(self, numbers: np.ndarray) -> None:
        """Drop copies and past agents that no env plays against any more."""
        used = set(numbers.tolist())
        for key, number in list(self._numbers.items()):
            if number not in used:
                del self._numbers[key]
                if isinstance(self._players.pop(number), RandomPlayer):  # a resumed run would not know its old games
                    self._loaded = {who: it for who, it in self._loaded.items() if not isinstance(it, RandomPlayer)}
        named = {key.rpartition("|")[0] for key in self._numbers}
        current = {f"{kind}@{at}" for kind, at in self._copied_at.items()}
        for name in [name for name in self._weights if name not in named | current]:
            del self._weights[name]

    def checkpoint_saved(self, steps: int) -> None:
        """A checkpoint was written: from now on this is the opponent "latest"."""
        self._take_copy("latest", steps)

    @property
    def without_saved_memory(self) -> list[str]:
        """Opponents whose games cannot be resumed exactly, as their memory cannot be saved."""
        return [who for (who, _), player in self._loaded.items() if not isinstance(player, SAVED)]

    # --- making players -----------------------------------------------------------------------------------------

    def _current_copy(self, kind: str, steps: int) -> str:
        """The name of the copy that new games play against."""
        at = self._copied_at[kind]
        due = steps - at >= COPY_EVERY * self._learner.num_envs and not self._is_current(kind)
        if at < 0 or (kind == "self" and due):
            self._take_copy(kind, steps)
        return f"{kind}@{self._copied_at[kind]}"

    def _take_copy(self, kind: str, steps: int) -> None:
        self._copied_at[kind], self._copied_after[kind] = steps, self._learner.updates
        self._weights[f"{kind}@{steps}"] = module_state(self._learner.policy)

    def _is_current(self, kind: str) -> bool:
        """Whether the learner is still as it was copied."""
        return self._copied_after[kind] == self._learner.updates

    def _make_player(self, name: str, deterministic: bool) -> Player:
        if name in self._weights:
            kind, _, at = name.partition("@")
            current = self._is_current(kind) and int(at) == self._copied_at[kind]
            agent = self._learner.agent if current else self._agent(self._weights[name])  # which takes 4 ms
            return seated(agent, name, self.seat, deterministic=deterministic)
        if self.league.archive.find(name) is not None:
            return seated(self.league.load_policy(name), name, self.seat, deterministic=deterministic)
        return self._load_player(name, deterministic)

    def _agent(self, weights: Tree) -> Agent:
        mine = self._learner.agent
        policy = deepcopy(self._learner.policy)
        load_module(policy, weights)
        return Agent(policy, mine.observation_space, mine.action_space, mine.device)

    def _load_player(self, who: str, deterministic: bool) -> Player:
        if (who, deterministic) not in self._loaded:
            self._refuse_unnamed_code(who)
            found = find_player(who, self.seat, self._runs_dir, deterministic=deterministic)
            if isinstance(found, Script):
                raise OptionError(f"{who!r} is a script, which the world should play")
            self._loaded[who, deterministic] = found
        return self._loaded[who, deterministic]

    def _refuse_unnamed_code(self, who: str) -> None:
        """A checkpoint names its opponents, and must not make rookery import a file that the config does not name."""
        if ".py:" in who and who not in self._named:
            raise CheckpointError(f"a checkpoint of this run names the opponent {who!r:.80}, and its config does not")

    # --- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> Tree:
        players = {
            str(number): player.state() if isinstance(player, SAVED) else {} for number, player in self._players.items()
        }
        return {
            "numbers": dict(self._numbers),
            "next": self._next,
            "weights": dict(self._weights),
            "copied_at": dict(self._copied_at),
            "copied_after": dict(self._copied_after),
            "players": players,
        }

    def load(self, state: Tree) -> None:
        self._weights, self._copied_at = dict(state["weights"]), dict(state["copied_at"])
        self._copied_after = dict(state["copied_after"])
        self._numbers, self._next = dict(state["numbers"]), state["next"]
        self._players = {}
        for key, number in self._numbers.items():
            name, _, deterministic = key.rpartition("|")
            player = self._players[number] = self._make_player(name, deterministic == "1")
            if isinstance(player, SAVED):
                player.load(state["players"][str(number)])
