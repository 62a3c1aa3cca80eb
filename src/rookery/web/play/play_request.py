"""What a page asks for: which agent plays, where and against whom, which match is played again, and which keys a person
holds. Only what the dashboard shows can be named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rookery.training.resolve.seats import SCRIPTS
from rookery.web.league_views.match_players import replay_player
from rookery.web.league_views.tournament_games import LENGTH, WINNER, GameRecords
from rookery.web.queries import flag_of, integer_of
from rookery.web.run_folders import NotShown, RunFolders
from rookery.worlds import registry

HUMAN = "human"
SELF = "self"
FILE = ".py:"  # in a name, by which players from files are known; a folder can be called so
MAX_ENVS = 16  # of a grid
LARGEST_SEED = 2**31 - 1
KEYS = ("left", "right", "up", "down", "anticlockwise", "clockwise", "shoot")


@dataclass(frozen=True)
class PlayRequest:
    """A session, as its process receives it.

    Attributes:
        agent: The path of a run's folder; or the name of an agent that comes with rookery, if `shipped`.
        name: What the page calls it.
        opponent: Of a two-player game: "human", "self", a script, the path of a run's folder or a shipped agent; None
            for the opponent of the training.
        envs: How many envs are shown; None for the usual number of the world.
        seed: Of the episodes; None for that of the run's evaluations.
        best: Whether the best agent by evaluation plays, or the last; None for the best, or the newest of a run that is
            still training.
        deterministic: Whether actions are deterministic; None for as in evaluations.
        at: A step of the run: the agent of the checkpoint before it plays.
        exact: The agent of exactly that step plays instead, which is trained again.
    """

    agent: str
    name: str
    shipped: bool = False
    opponent: str | None = None
    envs: int | None = None
    seed: int | None = None
    best: bool | None = None
    deterministic: bool | None = None
    at: int | None = None
    exact: bool | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PlayRequest:
        return cls(**json.loads(text))


def read_request(query: Mapping[str, str], folders: RunFolders) -> PlayRequest:
    """The request of a page. What it names must be there.

    >>> read_request({"agent": "hockey", "opponent": "weak"}, RunFolders(["runs"])).opponent
    'weak'
    """
    who = query.get("agent", "")
    shipped = "/" not in who
    if shipped and who not in registry.agents():
        raise NotShown(f"there is no agent {who[:80]!r}: give PLACE/NAME of a run, or {' or '.join(registry.agents())}")
    return PlayRequest(
        agent=who if shipped else _run_path(who, folders),
        name=who,
        shipped=shipped,
        opponent=_opponent(query.get("opponent", ""), folders),
        envs=integer_of(query, "envs", 1, MAX_ENVS),
        seed=integer_of(query, "seed", most=LARGEST_SEED),
        best=flag_of(query, "best"),
        deterministic=flag_of(query, "deterministic"),
        at=None if shipped else integer_of(query, "at"),
        exact=flag_of(query, "exact"),
    )


def _run_path(name: str, folders: RunFolders) -> str:
    place, _, run = name.partition("/")
    return str(folders.find(place, run))


def _opponent(who: str, folders: RunFolders) -> str | None:
    """An opponent that may be named from outside: never a Python file."""
    if not who:
        return None
    if who in (HUMAN, SELF, *SCRIPTS, *registry.agents()):
        return who
    if "/" not in who or FILE in who:
        raise NotShown(
            f"there is no opponent {who[:80]!r}: give human, self, none, weak, strong or PLACE/NAME of a run"
        )
    return _run_path(who, folders)


@dataclass(frozen=True)
class ReplayRequest:
    """A session that plays one game again.

    Attributes:
        run: The path of the run whose world is played in.
        name: What the page calls it.
        players: Name, kind ("agent", "script", "shipped" or "random") and value of both.
        seed: That of the tournament.
        number: Of the game within the pair.
        winner: 1 if the first of `players` won, 0 for a draw, -1 if it lost.
        length: In steps.
    """

    run: str
    name: str
    players: list[dict[str, Any]]
    seed: int
    number: int
    winner: int
    length: int

    def as_json(self) -> str:
        return json.dumps({"replay": asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> ReplayRequest | None:
        """None if this is another kind of request."""
        found = json.loads(text).get("replay")
        return None if found is None else cls(**found)


def read_replay(query: Mapping[str, str], folders: RunFolders) -> ReplayRequest:
    """The match that an address names: `league=PLACE/NAME&tournament=ID&first=0&second=3&number=7`."""
    place, _, name = query.get("league", "").partition("/")
    run, records = folders.find(place, name), GameRecords()
    records.update(folders.file(place, name, "league", "games.jsonl"))
    tournament = records.tournament
    if tournament is None or tournament.id != query.get("tournament"):
        raise NotShown("that tournament is not there any more: another has been played since")
    first, second, number = (integer_of(query, key) for key in ("first", "second", "number"))
    if first is None or second is None or number is None:
        raise NotShown("a match is named by `first`, `second` and `number`")
    game = records.find(min(first, second), max(first, second), number)
    if game is None:
        raise NotShown(f"the tournament has no match {number} of these players")
    players = [replay_player(tournament.players[k], place, folders) for k in sorted((first, second))]
    title = " against ".join(player["name"] for player in players)
    return ReplayRequest(str(run), title, players, tournament.seed, number, int(game[WINNER]), int(game[LENGTH]))


class KeyboardPlayer:
    """Plays the second seat of one env, by the keys that are held."""

    name = "you"

    def __init__(self) -> None:
        self.sequence = 0  # of the last message about keys that a step has used
        self._held: frozenset[str] = frozenset()
        self._tapped: frozenset[str] = frozenset()  # pressed since the last step, perhaps released since
        self._newest = 0

    def press(self, sequence: int, held: Iterable[str]) -> None:
        """The keys that are held from now on."""
        self._held = frozenset(held) & frozenset(KEYS)
        self._tapped |= self._held
        self._newest = max(self._newest, sequence)

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        """A game begins; keys stay held."""

    def act(self, observations: np.ndarray, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Force x, force y, torque and shoot. Keys use the table's directions; the second player's view is rotated."""
        down, self._tapped, self.sequence = self._held | self._tapped, frozenset(), self._newest
        x = float("left" in down) - float("right" in down)
        y = float("down" in down) - float("up" in down)
        turn = float("anticlockwise" in down) - float("clockwise" in down)
        return np.array([[x, y, turn, float("shoot" in down)]], np.float32)
