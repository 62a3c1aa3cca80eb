"""The games of a tournament as tasks of Ray: what `rookery league --games N --on ray` means.

A game depends on its players, the seed and its number alone. So the results are those of one machine, wherever and in
whatever order the parts are played: each is put at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from rookery.cluster.ray_start import allow_address, load_ray, open_ray
from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.gate import allow_given
from rookery.training.evaluation.match import GameEnvs, Match
from rookery.training.evaluation.win_record import GameResults
from rookery.training.league.ratings import PairResults
from rookery.training.league.tournament import default_batch
from rookery.training.league.tournament_report import GameLog
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.world_choice import World

RETRIES = 5  # of a part whose node is lost
GAMES_OF_A_PART = 64  # even: both players have either side as often


@contextmanager
def open_ray_tournament(address: str | None) -> Iterator[RemoteTournament]:
    """On the cluster at this address, or on one that is started here and ends with the tournament."""
    allow_address(address)
    with open_ray(address):
        yield RemoteTournament(play_on_ray)


def play_on_ray(
    duel: World, players: Sequence[Player | Script], parts: Sequence[GamePart], seed: int, backend: str
) -> Iterator[tuple[GamePart, GameResults]]:
    """The results of parts, as they come. Parts of a node that is lost are played again elsewhere, by Ray."""
    ray = load_ray()
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(play_part)
    stored = [ray.put(player) for player in players]  # each travels to a node once
    world = replace(duel)  # without what it keeps at hand
    code = [name for name in (duel.source, *duel.wrappers) if isinstance(name, str) and ".py:" in name]
    part_of: dict[Any, GamePart] = {}
    for part in parts:
        one, two = (stored[k] for k in part.pair)
        part_of[task.remote(world, one, two, part, seed, backend, code)] = part
    while part_of:
        done, _ = ray.wait(list(part_of), num_returns=1)
        for call in done:
            try:
                yield part_of.pop(call), ray.get(call)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, Exception) else error) from None


@dataclass(frozen=True)
class GamePart:
    """Games `first` to `first + games` of a pair of players, which are at `place` among all games."""

    pair: tuple[int, int]
    first: int
    games: int
    place: int


class RemoteGames:
    """All games of a tournament, with the results so far."""

    def __init__(self, players: int, games: int) -> None:
        pairs = list(combinations(range(players), 2))
        self.pairs = np.array(pairs).repeat(games, axis=0)
        self.numbers = np.tile(np.arange(games), len(pairs))
        total = len(self.pairs)
        self.results = GameResults(np.zeros(total, np.int64), np.full(total, np.nan), np.zeros(total, np.int64))
        firsts = range(0, games, GAMES_OF_A_PART)
        self.parts = [
            GamePart(pair, first, min(GAMES_OF_A_PART, games - first), k * games + first)
            for k, pair in enumerate(pairs)
            for first in firsts
        ]

    @property
    def ended(self) -> np.ndarray:
        return self.results.lengths > 0

    def add(self, part: GamePart, played: GameResults) -> None:
        """Put the results of a part at their place."""
        rows = slice(part.place, part.place + part.games)
        for name in ("winners", "returns", "lengths"):
            getattr(self.results, name)[rows] = getattr(played, name)


def play_part(
    duel: World,
    one: Player | Script,
    two: Player | Script,
    part: GamePart,
    seed: int,
    backend: str,
    code: Sequence[str] = (),
) -> GameResults:
    """Play a part; `code` may be imported for it."""
    allow_given(code)
    batch = min(default_batch(duel, (one, two)), part.games)
    with closing(GameEnvs(duel, batch, backend)) as envs:
        played = Match(envs, (one, two), part.games, seed, part.first).play()
    assert played is not None  # nobody asked it to stop
    return played


PlayParts = Callable[
    [World, Sequence[Player | Script], Sequence[GamePart], int, str], Iterable[tuple[GamePart, GameResults]]
]


class RemoteTournament:
    """Plays tournaments by a function that yields the results of parts in any order."""

    def __init__(self, play_parts: PlayParts) -> None:
        self._play_parts = play_parts

    def __call__(
        self,
        duel: World,
        players: Sequence[Player | Script],
        games: int,
        seed: int,
        *,
        backend: str = "serial",
        progress: Callable[[int, int], None] = lambda done, total: None,
        log: GameLog | None = None,
    ) -> PairResults:
        positive_int("games", games)
        if len(players) < 2:
            raise OptionError(f"a tournament needs at least two players, got {len(players)}")
        all_games, done = RemoteGames(len(players), games), 0
        for part, played in self._play_parts(duel, players, all_games.parts, seed, backend):
            all_games.add(part, played)
            done += part.games
            progress(done, len(all_games.pairs))
            if log is not None:
                log.add(all_games, last=done == len(all_games.pairs))
        return PairResults.of(len(players), all_games.pairs, all_games.results.winners)
