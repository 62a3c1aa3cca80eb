"""Everyone against everyone: all games of a tournament in one batch, each player acting once a step for all of its own.

Pairs play alike: each two games of a pair begin from the same seed with the sides changed, and all pairs from the same
seeds. What happens in a game depends on its players, its seed and its number, not on the games beside it (as far as the
players' own answers do not: see `AgentPlayer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import combinations
from typing import Any

import numpy as np

from rookery.engine.seeding import child_seed
from rookery.engine.settings import positive_int
from rookery.errors import OptionError, WorldError
from rookery.training.file_player import FilePlayer
from rookery.training.games import IDLE, VIEW, WINNER, Games
from rookery.training.league.results import Results
from rookery.training.players import Player, Script
from rookery.training.world import World

AT_ONCE = 1024  # games, where steps are cheap: enough that calls do not matter, few enough to stay in caches
FEW_AT_ONCE = 64  # where they are not, and where a player from a file has an instance in each


def play_tournament(
    duel: World,
    players: Sequence[Player | Script],
    games: int,
    seed: int,
    *,
    batch: int | None = None,
    backend: str = "serial",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Results:
    """Let every two players meet in so many games.

    Args:
        duel: The world, as `duel_of` gives it.
        games: For each pair; of an even number, both play half from either side.
        batch: How many games are played at once.
        backend: As of the envs that trained.
        progress: Called after games with how many there have been, and how many there will be.
    """
    positive_int("games", games)
    if len(players) < 2:
        raise OptionError(f"a tournament needs at least two players, got {len(players)}")
    batch = batch or _usual_batch(duel, players)
    pairs = len(players) * (len(players) - 1) // 2
    with closing(Games(duel, min(batch, pairs * games), backend)) as table:
        return Tournament(table, players, games, seed).play(progress)


def _usual_batch(duel: World, players: Sequence[Player | Script]) -> int:
    by_hand = any(isinstance(player, FilePlayer) for player in players)
    return AT_ONCE if duel.kernel and not by_hand else FEW_AT_ONCE


class Tournament:
    """The games of some players on a table. A game has two seats in an env; the seats of all envs are counted through,
    first those of player one, and a player knows its games by the numbers of its seats."""

    def __init__(self, table: Games, players: Sequence[Player | Script], games: int, seed: int) -> None:
        self.table, self.envs, self.players = table, table.envs, players
        table.check(*players)
        self._scripted = table.scripted
        pairs = np.array(list(combinations(range(len(players)), 2)))
        number = np.tile(np.arange(games), len(pairs))
        pair = np.repeat(pairs, games, axis=0)
        self._sides = np.where(number[:, None] % 2, pair[:, ::-1], pair)  # [game, seat]: who
        self._number = number
        self._starts = [child_seed(seed, game // 2) for game in range(games)]
        self._chances = [[child_seed(seed, game, seat + 1) for seat in range(2)] for game in range(games)]
        self._winner = np.zeros(len(number), np.int64)
        self._dealt = self._done = 0
        self._lay_table()

    def _lay_table(self) -> None:
        count, seat = self.envs.num_envs, self.table.seat
        space = seat.observation_space
        self._game = np.full(count, IDLE)
        self._seats = np.arange(2 * count).reshape(2, count)  # their numbers, by side and env
        self._who = np.full((2, count), IDLE)
        self._views = np.zeros((2 * count, *(space.shape or ())), space.dtype)
        self._actions = np.zeros(self.envs.action_space.shape or (), self.envs.action_space.dtype)
        self._asked = self._actions.reshape(count, 2, *(seat.action_space.shape or ()))

    def play(self, progress: Callable[[int, int], None]) -> Results:
        """To the end."""
        self._deal(np.arange(self.envs.num_envs))
        while self._done < len(self._winner):
            self._act()
            observations, _, terminated, truncated, infos = self.envs.step(self._actions)
            self._see(observations, infos, np.arange(self.envs.num_envs))
            ended = np.flatnonzero(terminated | truncated)
            if len(ended):
                self._note(ended, infos)
                self._deal(ended)
                progress(self._done, len(self._winner))
        return Results.of(len(self.players), self._sides, self._winner)

    def _act(self) -> None:
        """Each player for all its seats at once."""
        count = self.envs.num_envs
        for who, seats in self._sitting:
            self._asked[seats % count, seats // count] = self.players[who].act(self._views[seats], seats)  # type: ignore[union-attr]

    def _see(self, observations: np.ndarray, infos: dict[str, Any], envs: np.ndarray) -> None:
        """Take down what players see in these envs."""
        if VIEW not in infos:
            raise WorldError(
                f"{self.envs.source.name} is no game for two: its infos hold no {VIEW!r}, what the second player sees"
            )
        first, second = self._seats[:, envs]
        self._views[first], self._views[second] = observations[envs], infos[VIEW][envs]

    def _note(self, ended: np.ndarray, infos: dict[str, Any]) -> None:
        """Write down games that have ended."""
        if WINNER not in infos:
            raise WorldError(f"{self.envs.source.name} does not say in its infos who won, as {WINNER!r}: 1, 0 or -1")
        played = ended[self._game[ended] != IDLE]
        self._winner[self._game[played]] = np.sign(infos[WINNER][played])
        self._done += len(played)

    def _deal(self, envs: np.ndarray) -> None:
        """Begin games in these envs. When there are no more, an env goes on for nobody, as all are stepped together."""
        new = np.arange(self._dealt, min(self._dealt + len(envs), len(self._winner)))
        self._dealt += len(new)
        used, idle = np.split(envs, [len(new)])
        self._game[used], self._game[idle] = new, IDLE
        self._who[:, used], self._who[:, idle] = self._sides[new].T, IDLE
        self._asked[envs] = self.table.seat.nothing  # which is what seats without a player go on asking for
        for group in self._alike(envs):
            self._reset(group)
        self._seat_players(used)
        self._sitting = [
            (who, seats) for who, seats in _grouped(self._who.ravel()) if not isinstance(self.players[who], Script)
        ]

    def _alike(self, envs: np.ndarray) -> list[np.ndarray]:
        """These envs, in groups that can be reset with the same options."""
        if not self._scripted:
            return [envs]
        script = np.array([self._parameter(who) for who in range(len(self.players))] + ["free"])
        keys = [f"{one} {two}" for one, two in script[self._who[:, envs]].T]
        return [envs[places] for places in (np.flatnonzero(np.array(keys) == key) for key in dict.fromkeys(keys))]

    def _reset(self, envs: np.ndarray) -> None:
        options: dict[str, Any] = {"reset_mask": np.isin(np.arange(len(self._game)), envs)}
        if self._scripted:
            one, two = (self._parameter(who) for who in self._who[:, envs[0]].tolist())
            options |= {"player_one": one, "player_two": two}
        seeds: list[int | None] = [None] * len(self._game)
        for env, game in zip(envs.tolist(), self._game[envs].tolist(), strict=True):
            seeds[env] = self._starts[self._number[game]]  # of an idle one, any will do
        observations, infos = self.envs.reset(seed=seeds, options=options)
        self._see(observations, infos, envs)

    def _parameter(self, who: int) -> str:
        player = self.players[who] if who != IDLE else None
        return player.parameter if isinstance(player, Script) else "free"

    def _seat_players(self, envs: np.ndarray) -> None:
        """Tell players of their new games."""
        for side, places in enumerate(self._seats[:, envs]):
            for who, at in _grouped(self._who[side, envs]):
                player = self.players[who]
                if not isinstance(player, Script):
                    numbers = self._number[self._game[envs[at]]]
                    player.begin(places[at], [self._chances[number][side] for number in numbers])


def _grouped(who: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Who there is, and at which places; those who are nobody are left out.

    >>> [(who, places.tolist()) for who, places in _grouped(np.array([3, 1, -1, 3]))]
    [(1, [1]), (3, [0, 3])]
    """
    order = np.argsort(who, kind="stable")
    present, starts = np.unique(who[order], return_index=True)
    places = np.split(order, starts)[1:]
    return [(int(name), rows) for name, rows in zip(present, places, strict=True) if name != IDLE]
