"""Games between two players, on any world for two (see `training.seats`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from rookery.engine.api import make_vec
from rookery.engine.engine import Engine
from rookery.engine.seeding import child_seed
from rookery.engine.settings import positive_int
from rookery.errors import OptionError, WorldError
from rookery.training.players import Player, Script
from rookery.training.record import Record, Results
from rookery.training.seats import VIEW, Seat, seat_of
from rookery.training.world import World

KEYS = (1, 2)  # of the players' seeds
WINNER = "winner"
IDLE = -1  # the game of an env that has none


def play_games(
    duel: World,
    first: Player | Script,
    second: Player | Script,
    games: int,
    seed: int,
    *,
    batch: int = 1,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda done: None,
) -> Record | None:
    """Let two players meet; returns how it went for the first, or None if `stop()` said so before the end.

    Sides alternate: each two games begin alike, from the seed's child of their number, with the players on either side.
    What happens in a game depends on players, seed and the game's number, not on how many are played at once (as far
    as the players' own answers do not: see `AgentPlayer`).

    Args:
        duel: The world, as `duel_of` gives it.
        batch: How many games are played at once. Each player acts in all of them in one call.
        progress: Called after games with how many there have been.
    """
    positive_int("games", games)
    with closing(Games(duel, min(batch, games))) as table:
        return table.play(first, second, games, seed, stop, progress)


class Games:
    """Keeps the envs of a duel between matches."""

    def __init__(self, duel: World, batch: int = 1, backend: str = "serial", **guard: Any) -> None:
        """`backend` is that of the envs that train: games are as dangerous. `guard` holds options of `make_vec` about
        failures."""
        positive_int("batch", batch)
        backend = "kernel" if duel.kernel else "process" if backend == "process" else "serial"
        workers = None if duel.kernel else 1
        self.duel = duel
        self.envs: Engine = make_vec(
            duel.source,
            batch,
            backend,
            workers,
            autoreset_mode="Disabled",
            copy=False,
            env_kwargs=duel.env_kwargs,
            **guard,
        )
        seat = seat_of(self.envs.single_observation_space, self.envs.single_action_space)
        if seat is None:
            self.envs.close()
            raise WorldError(
                f"{duel.name} is no game for two: its actions, {self.envs.single_action_space}, have no halves"
            )
        self.seat = seat
        self.scripted = _knows(self.envs, "player_one") and _knows(self.envs, "player_two")

    def play(
        self,
        first: Player | Script,
        second: Player | Script,
        games: int,
        seed: int,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Record | None:
        """As `play_games`."""
        results = self.results(first, second, games, seed, stop, progress)
        return None if results is None else results.record()

    def results(
        self,
        first: Player | Script,
        second: Player | Script,
        games: int,
        seed: int,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Results | None:
        """As `play`, game by game."""
        self.check(first, second)
        match = Match(self.envs, self.seat, (first, second), games, seed, self.scripted)
        return match.play(stop, progress)

    def check(self, *players: Player | Script) -> None:
        """Refuse scripts that the world does not have."""
        for player in players:
            if isinstance(player, Script) and player.parameter != "free" and not self.scripted:
                raise OptionError(
                    f"{self.duel.name} has no script {player.name!r}: it takes parameters player_one and player_two"
                )

    def close(self) -> None:
        """End the envs."""
        self.envs.close()


class Match:
    """Some games of the same two players."""

    def __init__(
        self,
        envs: Engine,
        seat: Seat,
        players: tuple[Player | Script, Player | Script],
        games: int,
        seed: int,
        scripted: bool,
    ) -> None:
        count, space = envs.num_envs, seat.observation_space
        self.envs, self.players, self.games, self.seed, self.scripted = envs, players, games, seed, scripted
        self._game = np.full(count, IDLE)
        self._side = np.zeros((2, count), np.intp)  # where each of the players sits: 0 is player one
        # What all first players see and then what all second ones see; and what players ask for, by twos.
        self._views = np.zeros((2 * count, *(space.shape or ())), space.dtype)
        self._actions = np.zeros(envs.action_space.shape or (), envs.action_space.dtype)
        self._asked = self._actions.reshape(2 * count, *(seat.action_space.shape or ()))
        self._nothing = seat.nothing
        self._numbers = np.arange(count), np.arange(count) + (count if players[0] is players[1] else 0)
        self._acting: list[tuple[Player, np.ndarray, np.ndarray, np.ndarray]] = []
        self._dealt = self._done = 0
        self._winner, self._length = np.zeros(games, np.int64), np.zeros(games, np.int64)
        self._return = np.full(games, np.nan)

    def play(self, stop: Callable[[], bool], progress: Callable[[int], None]) -> Results | None:
        """To the end; None if it was asked to stop before."""
        self.envs.finished_episodes()
        self._deal(np.arange(self.envs.num_envs))
        while self._done < self.games:
            if stop():
                return None
            self._act()
            observations, _, terminated, truncated, infos = self.envs.step(self._actions)
            self._see(observations, infos, None)
            ended = terminated | truncated
            if b"\1" in ended.tobytes():  # a third of the price of ended.any(), at every step
                self._note(infos)
                self._deal(np.flatnonzero(ended))
                progress(self._done)
        return Results(self._winner, self._return, self._length)

    def _act(self) -> None:
        """Both players, each for all its games at once."""
        for player, views, seats, numbers in self._acting:
            self._asked[seats] = player.act(self._views[views], numbers)

    def _see(self, observations: np.ndarray, infos: dict[str, Any], envs: np.ndarray | None) -> None:
        """Take down what players see, in all envs or in those that were reset."""
        if VIEW not in infos:
            if "restarted" in infos:  # there is nothing to see: the game will begin anew
                return
            raise WorldError(
                f"{self.envs.source.name} is no game for two: its infos hold no {VIEW!r}, what the second player sees"
            )
        other, spoke = infos[VIEW], infos[f"_{VIEW}"]
        if envs is None and b"\0" not in spoke.tobytes():
            self._views[: len(spoke)], self._views[len(spoke) :] = observations, other
        else:
            some = np.flatnonzero(spoke) if envs is None else envs
            self._views[some], self._views[len(spoke) + some] = observations[some], other[some]

    def _note(self, infos: dict[str, Any]) -> None:
        """Write down games that have ended. One whose env broke is played again."""
        broken = infos.get("restarted", np.zeros(self.envs.num_envs, bool))
        for episode in self.envs.finished_episodes():
            env = int(episode["env"])
            game = int(self._game[env])
            if game == IDLE or broken[env]:
                continue
            side = self._side[0, env]
            self._winner[game] = _winner(infos, env, self.envs.source.name) * (1 if side == 0 else -1)
            self._length[game] = episode["length"]
            if side == 0:
                self._return[game] = episode["return"]
            self._done += 1
            self._game[env] = IDLE

    def _deal(self, envs: np.ndarray) -> None:
        """Begin games in these envs. When there are no more, an env goes on for nobody, as all are stepped together."""
        for env in envs.tolist():
            if self._game[env] == IDLE and self._dealt < self.games:
                self._game[env] = self._dealt
                self._dealt += 1
        self._side[0, envs] = self._game[envs] % 2
        self._side[1, envs] = 1 - self._side[0, envs]
        self._asked[2 * envs] = self._asked[2 * envs + 1] = self._nothing
        for side in (0, 1) if self.scripted else (None,):
            self._reset(envs if side is None else envs[self._side[0, envs] == side])
        self._seat_players(envs[self._game[envs] != IDLE])

    def _reset(self, envs: np.ndarray) -> None:
        """Begin anew in these envs, in all of which players sit on the same sides if that matters."""
        if not len(envs):
            return
        options: dict[str, Any] = {"reset_mask": np.isin(np.arange(len(self._game)), envs)}
        if self.scripted:
            at = dict(zip(self._side[:, envs[0]].tolist(), self.players, strict=True))
            options |= {"player_one": _parameter(at[0]), "player_two": _parameter(at[1])}
        seeds: list[int | None] = [None] * len(self._game)
        for env in envs.tolist():
            seeds[env] = child_seed(self.seed, max(0, int(self._game[env]) // 2))
        observations, infos = self.envs.reset(seed=seeds, options=options)
        self._see(observations, infos, envs)

    def _seat_players(self, envs: np.ndarray) -> None:
        """Tell players of games that begin in these envs, and note whose turn it is where from now on."""
        self._acting = []
        playing, count = np.flatnonzero(self._game != IDLE), len(self._game)
        for key, player, side, numbers in zip(KEYS, self.players, self._side, self._numbers, strict=True):
            if isinstance(player, Script):
                continue
            if len(envs):
                player.begin(numbers[envs], [child_seed(self.seed, game, key) for game in self._game[envs].tolist()])
            mine = side[playing]
            self._acting.append((player, count * mine + playing, 2 * playing + mine, numbers[playing]))


def _winner(infos: dict[str, Any], env: int, name: str) -> int:
    if WINNER not in infos:
        raise WorldError(f"{name} does not say who won: the last info of a game should hold {WINNER!r}, 1, 0 or -1")
    return int(np.sign(infos[WINNER][env]))


def _parameter(player: Player | Script) -> str:
    return player.parameter if isinstance(player, Script) else "free"


def _knows(envs: Engine, parameter: str) -> bool:
    """Whether the envs have a parameter of this name."""
    try:
        envs.call_some([0], parameter)
    except AttributeError:
        return False
    return True
