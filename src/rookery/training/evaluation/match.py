"""A match: every player against every other, two or many, each acting once per step for all its games.

Sides alternate: two games of a pair in a row begin from the same child of the seed, with the players on opposite sides;
and the games of all pairs begin from the same seeds. What happens in a game depends on its players, the seed and its
number, not on the games beside it (as far as the players' actions do not: see `AgentPlayer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec
from rookery.engine.seeding import child_seed
from rookery.engine.settings import positive_int
from rookery.errors import OptionError, WorldError
from rookery.learners.action_spaces import mask_of
from rookery.training.evaluation.win_record import GameResults
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.seats import RETURN_TWO, VIEW, masks_of_both, seat_of, views_in
from rookery.training.resolve.world_choice import World, not_for_two_players

KEYS = (1, 2)  # of the players' seeds
WINNER = "winner"
IDLE = -1  # the game of an env that has none, and its players


def start_seed(seed: int, number: int) -> int:
    """The seed of the env in game `number` of a pair, in a match with this seed."""
    return child_seed(seed, number // 2)


def player_seed(seed: int, number: int, side: int) -> int:
    """The seed of the player on a side (0 or 1) in game `number` of a pair."""
    return child_seed(seed, number, KEYS[(number + side) % 2])


class Match:
    """Some games of every two of the players. An env has a seat for player one and one for player two; the seats of all
    envs are numbered, first those of player one."""

    def __init__(
        self, game_envs: GameEnvs, players: Sequence[Player | Script], games: int, seed: int, first: int = 0
    ) -> None:
        """`games` is the number of games of each pair, and `first` the number of the first one."""
        game_envs.check(*players)
        self.envs, self.players = game_envs.envs, players
        pairs = np.array(list(combinations(range(len(players)), 2)))
        self.pairs = pairs.repeat(games, axis=0)  # [game, 2]: the players; results are the first one's
        self.numbers = np.tile(np.arange(first, first + games), len(pairs))  # of a game within its pair
        self._sides = np.where(self.numbers[:, None] % 2, self.pairs[:, ::-1], self.pairs)  # [game, side]: the player
        self._start_seeds = [start_seed(seed, number) for number in range(first + games)]
        self._player_seeds = [[player_seed(seed, number, side) for side in (0, 1)] for number in range(first + games)]
        self._games_begun = self._games_ended = 0
        total = len(self.numbers)
        self.results = GameResults(np.zeros(total, np.int64), np.full(total, np.nan), np.zeros(total, np.int64))
        self._make_arrays(game_envs)

    def _make_arrays(self, game_envs: GameEnvs) -> None:
        """Make the arrays of all envs; no game has begun."""
        count, seat = self.envs.num_envs, game_envs.seat
        space, actions = seat.observation_space, self.envs.action_space
        self._scripted, self._nothing = game_envs.scripted, seat.nothing
        self._game = np.full(count, IDLE)
        self._players_at = np.full((2, count), IDLE)  # [side, env]; flat, this is a seat's number
        self._seat = seat
        self._views = np.zeros((2 * count, *(space.shape or ())), space.dtype)  # by seat
        self._masks: np.ndarray | None = None  # by seat, if the world has action masks
        self._actions = np.zeros(actions.shape or (), actions.dtype)
        self._seat_actions = self._actions.reshape(2 * count, *(seat.action_space.shape or ()))  # by env and side
        self._acting: list[tuple[Player, np.ndarray, np.ndarray, np.ndarray]] = []
        # Players number their games by env; one that plays itself needs different numbers for both seats.
        self._first_number = [count * self.players[:k].count(player) for k, player in enumerate(self.players)]

    @property
    def games(self) -> int:
        """How many games there are, of all pairs."""
        return len(self.pairs)

    @property
    def ended(self) -> np.ndarray:
        """Which games have ended, as a mask of `pairs`."""
        return self.results.lengths > 0

    def play(
        self, stop: Callable[[], bool] = lambda: False, progress: Callable[[int], None] = lambda done: None
    ) -> GameResults | None:
        """Play all games, pair by pair; None if `stop()` was true before the end. `progress` is called with the number
        of games played; then `ended` has these games."""
        self.envs.finished_episodes()
        self._begin_games(np.arange(self.envs.num_envs))
        while self._games_ended < self.games:
            if stop():
                return None
            for player, seats, places, numbers in self._acting:
                allowed = () if self._masks is None else (self._masks[seats],)
                self._seat_actions[places] = player.act(self._views[seats], numbers, *allowed)
            observations, _, terminated, truncated, infos = self.envs.step(self._actions)
            self._read_views(observations, infos, None)
            ended = terminated | truncated
            if b"\1" in ended.tobytes():  # a third of the price of ended.any(), at every step
                self._record_ended_games(infos)
                self._begin_games(np.flatnonzero(ended))
                progress(self._games_ended)
        return self.results

    def _read_views(self, observations: np.ndarray, infos: dict[str, Any], envs: np.ndarray | None) -> None:
        """Keep the players' observations, of all envs or of those that were reset."""
        if VIEW not in infos:
            if "restarted" in infos:  # the observation is of no use: the game will start over
                return
            raise WorldError(
                f"{self.envs.source.name} is not a two-player game: its infos hold no {VIEW!r}, the second player's "
                f"view"
            )
        other, info_mask = views_in(infos[VIEW], self._seat.observation_space), infos[f"_{VIEW}"]
        if envs is None and b"\0" not in info_mask.tobytes():
            self._views[: len(info_mask)], self._views[len(info_mask) :] = observations, other
        else:
            some = np.flatnonzero(info_mask) if envs is None else envs
            self._views[some], self._views[len(info_mask) + some] = observations[some], other[some]
        self._read_masks(infos, envs)

    def _read_masks(self, infos: dict[str, Any], envs: np.ndarray | None) -> None:
        """Keep both players' action masks, if there are any."""
        masks = mask_of(None, infos)
        if masks is None:
            return
        sides = masks_of_both(masks, self._seat.action_space)
        if self._masks is None:
            self._masks = np.ones((2 * len(masks), sides[0].shape[1]), np.bool_)
        some = np.arange(len(masks)) if envs is None else envs
        self._masks[some], self._masks[len(masks) + some] = sides[0][some], sides[1][some]

    def _record_ended_games(self, infos: dict[str, Any]) -> None:
        """Record games that have ended. One whose env failed is played again."""
        broken = infos.get("restarted", np.zeros(self.envs.num_envs, bool))
        for episode in self.envs.finished_episodes():
            env = int(episode["env"])
            game = int(self._game[env])
            if game == IDLE or broken[env]:
                continue
            swapped = self.numbers[game] % 2
            winner = _winner(infos, env, self.envs.source.name)
            self.results.winners[game] = -winner if swapped else winner
            self.results.lengths[game] = episode["length"]
            if not swapped:
                self.results.returns[game] = episode["return"]
            elif RETURN_TWO in infos:
                self.results.returns[game] = infos[RETURN_TWO][env]
            self._games_ended += 1
            self._game[env] = IDLE

    def _begin_games(self, envs: np.ndarray) -> None:
        """Begin games in these envs. If there are no more, an env is stepped without players, as all step together."""
        waiting = envs[self._game[envs] == IDLE]
        new = np.arange(self._games_begun, min(self._games_begun + len(waiting), self.games))
        self._games_begun += len(new)
        self._game[waiting[: len(new)]] = new
        used = envs[self._game[envs] != IDLE]
        self._players_at[:, envs], self._players_at[:, used] = IDLE, self._sides[self._game[used]].T
        self._seat_actions[2 * envs] = self._seat_actions[2 * envs + 1] = self._nothing
        by_scripts: dict[tuple[str, ...], list[int]] = {}  # envs that can be reset with the same options
        for env in envs.tolist():
            by_scripts.setdefault(self._scripts(env), []).append(env)
        for scripts, group in by_scripts.items():
            self._reset(np.array(group), scripts)
        self._begin(used)

    def _scripts(self, env: int) -> tuple[str, ...]:
        """What the world plays itself on either side, if it has scripts."""
        if not self._scripted:
            return ()
        players = (self.players[who] if who != IDLE else None for who in self._players_at[:, env].tolist())
        return tuple(player.parameter if isinstance(player, Script) else "free" for player in players)

    def _reset(self, envs: np.ndarray, scripts: tuple[str, ...]) -> None:
        """Reset these envs."""
        count = self.envs.num_envs
        options: dict[str, Any] = {"reset_mask": np.isin(np.arange(count), envs)}
        options |= zip(("player_one", "player_two"), scripts, strict=False)
        seeds: list[int | None] = [None] * count
        for env, game in zip(envs.tolist(), self._game[envs].tolist(), strict=True):
            seeds[env] = self._start_seeds[self.numbers[game]]  # of an idle one, any seed will do
        observations, infos = self.envs.reset(seed=seeds, options=options)
        self._read_views(observations, infos, envs)

    def _begin(self, envs: np.ndarray) -> None:
        """Begin games of the players in these envs, and list who acts in which seats from now on."""
        for player, sides, mine, numbers in self._seats(envs):
            games = self.numbers[self._game[mine]].tolist()
            seeds = [self._player_seeds[game][side] for game, side in zip(games, sides.tolist(), strict=True)]
            player.begin(numbers, seeds)
        count = self.envs.num_envs
        self._acting = [
            (player, count * sides + mine, 2 * mine + sides, numbers)
            for player, sides, mine, numbers in self._seats(np.arange(count))
        ]

    def _seats(self, envs: np.ndarray) -> Iterator[tuple[Player, np.ndarray, np.ndarray, np.ndarray]]:
        """The players who act in these envs, with their sides, their envs, and their numbers of these envs."""
        here = self._players_at[:, envs]
        for who in np.unique(here[here != IDLE]).tolist():
            player = self.players[who]
            if not isinstance(player, Script):
                sides, places = np.nonzero(here == who)
                yield player, sides, envs[places], envs[places] + self._first_number[who]


def _winner(infos: dict[str, Any], env: int, name: str) -> int:
    if WINNER not in infos:
        raise WorldError(f"{name} does not say who won: the final info of a game should hold {WINNER!r}, 1, 0 or -1")
    return int(np.sign(infos[WINNER][env]))


class GameEnvs:
    """Envs of a two-player world, kept between matches."""

    def __init__(self, duel: World, batch: int = 1, backend: str = "serial", **failure_options: Any) -> None:
        """`duel` is a world as `duel_of` returns it, `batch` the number of games at once. `backend` is that of the envs
        that train: envs that need a process there need one here. `failure_options` are those of `make_vec`."""
        positive_int("batch", batch)
        backend = "kernel" if duel.kernel else "process" if backend == "process" else "serial"
        workers = None if duel.kernel else min(batch, usable_cores()) if backend == "process" else 1
        self.duel = duel
        with explain_option_errors(duel):
            self.envs: Engine = make_vec(
                duel.factory, batch, backend, workers, autoreset_mode="Disabled", copy=False, **failure_options
            )
        seat = seat_of(self.envs.single_observation_space, self.envs.single_action_space)
        if seat is None:
            self.envs.close()
            raise not_for_two_players(duel)
        self.seat = seat
        self.scripted = _has_parameter(self.envs, "player_one") and _has_parameter(self.envs, "player_two")

    def check(self, *players: Player | Script) -> None:
        """Refuse scripted players that the world does not have."""
        for player in players:
            if isinstance(player, Script) and player.parameter != "free" and not self.scripted:
                raise OptionError(
                    f"{self.duel.name} has no script {player.name!r}: it takes parameters player_one and player_two"
                )

    def close(self) -> None:
        self.envs.close()


def _has_parameter(envs: Engine, parameter: str) -> bool:
    """Whether the envs have a parameter of this name."""
    try:
        envs.call_some([0], parameter)
    except AttributeError:
        return False
    return True
