"""A match: everyone against everyone, with two players as with twenty, each acting once a step for all its games.

Sides alternate: each two games of a pair begin alike, from the seed's child of their number, with the players on either
side; and all pairs' games begin from the same seeds. What happens in a game depends on its players, the seed and its
number, not on the games beside it (as far as the players' own answers do not: see `AgentPlayer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from rookery.engine.seeding import child_seed
from rookery.errors import WorldError
from rookery.training.evaluation.game_envs import Games
from rookery.training.evaluation.win_record import GameResults
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.seats import VIEW

KEYS = (1, 2)  # of the players' seeds
WINNER = "winner"
IDLE = -1  # the game of an env that has none, and who sits there


class Match:
    """Some games of every two of the players. A game has a seat on either side of an env; the seats of all envs are
    counted through, first those of player one."""

    def __init__(self, table: Games, players: Sequence[Player | Script], games: int, seed: int) -> None:
        """`games` is how often each two of the players meet."""
        table.check(*players)
        self.envs, self.players = table.envs, players
        pairs = np.array(list(combinations(range(len(players)), 2)))
        self.pairs = pairs.repeat(games, axis=0)  # [game, 2]: who meet; results are the first one's
        self._number = np.tile(np.arange(games), len(pairs))  # of a game among those of its pair
        self._sides = np.where(self._number[:, None] % 2, self.pairs[:, ::-1], self.pairs)  # [game, side]: who
        self._starts = [child_seed(seed, number // 2) for number in range(games)]
        self._chances = [[child_seed(seed, number, key) for key in KEYS] for number in range(games)]
        self._dealt = self._done = 0
        total = len(self._number)
        self._results = GameResults(np.zeros(total, np.int64), np.full(total, np.nan), np.zeros(total, np.int64))
        self._lay(table)

    def _lay(self, table: Games) -> None:
        """Nobody sits anywhere yet."""
        count, seat = self.envs.num_envs, table.seat
        space, actions = seat.observation_space, self.envs.action_space
        self._scripted, self._nothing = table.scripted, seat.nothing
        self._game = np.full(count, IDLE)
        self._who = np.full((2, count), IDLE)  # by side and env, which is a seat's number
        self._views = np.zeros((2 * count, *(space.shape or ())), space.dtype)  # by seat
        self._actions = np.zeros(actions.shape or (), actions.dtype)
        self._asked = self._actions.reshape(2 * count, *(seat.action_space.shape or ()))  # by env and side
        self._acting: list[tuple[Player, np.ndarray, np.ndarray, np.ndarray]] = []
        # Players know their games by the envs; one that meets itself must tell its own from the other's.
        self._first_number = [count * self.players[:k].count(player) for k, player in enumerate(self.players)]

    @property
    def games(self) -> int:
        """How many there are, of all pairs."""
        return len(self.pairs)

    def play(
        self, stop: Callable[[], bool] = lambda: False, progress: Callable[[int], None] = lambda done: None
    ) -> GameResults | None:
        """To the end, pair by pair; None if `stop()` said so before. `progress` is told how many games there were."""
        self.envs.finished_episodes()
        self._deal(np.arange(self.envs.num_envs))
        while self._done < self.games:
            if stop():
                return None
            for player, seats, places, numbers in self._acting:
                self._asked[places] = player.act(self._views[seats], numbers)
            observations, _, terminated, truncated, infos = self.envs.step(self._actions)
            self._see(observations, infos, None)
            ended = terminated | truncated
            if b"\1" in ended.tobytes():  # a third of the price of ended.any(), at every step
                self._note(infos)
                self._deal(np.flatnonzero(ended))
                progress(self._done)
        return self._results

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
            swapped = self._number[game] % 2
            winner = _winner(infos, env, self.envs.source.name)
            self._results.winners[game] = -winner if swapped else winner
            self._results.lengths[game] = episode["length"]
            if not swapped:
                self._results.returns[game] = episode["return"]
            self._done += 1
            self._game[env] = IDLE

    def _deal(self, envs: np.ndarray) -> None:
        """Begin games in these envs. When there are no more, an env goes on for nobody, as all are stepped together."""
        waiting = envs[self._game[envs] == IDLE]
        new = np.arange(self._dealt, min(self._dealt + len(waiting), self.games))
        self._dealt += len(new)
        self._game[waiting[: len(new)]] = new
        used = envs[self._game[envs] != IDLE]
        self._who[:, envs], self._who[:, used] = IDLE, self._sides[self._game[used]].T
        self._asked[2 * envs] = self._asked[2 * envs + 1] = self._nothing
        alike: dict[tuple[str, ...], list[int]] = {}  # envs that can be reset with the same options
        for env in envs.tolist():
            alike.setdefault(self._scripts(env), []).append(env)
        for scripts, group in alike.items():
            self._reset(np.array(group), scripts)
        self._begin(used)

    def _scripts(self, env: int) -> tuple[str, ...]:
        """Whom the world is to play on either side, if it can."""
        if not self._scripted:
            return ()
        seated = (self.players[who] if who != IDLE else None for who in self._who[:, env].tolist())
        return tuple(player.parameter if isinstance(player, Script) else "free" for player in seated)

    def _reset(self, envs: np.ndarray, scripts: tuple[str, ...]) -> None:
        """Begin anew in these envs."""
        count = self.envs.num_envs
        options: dict[str, Any] = {"reset_mask": np.isin(np.arange(count), envs)}
        options |= zip(("player_one", "player_two"), scripts, strict=False)
        seeds: list[int | None] = [None] * count
        for env, game in zip(envs.tolist(), self._game[envs].tolist(), strict=True):
            seeds[env] = self._starts[self._number[game]]  # of an idle one, any will do
        observations, infos = self.envs.reset(seed=seeds, options=options)
        self._see(observations, infos, envs)

    def _begin(self, envs: np.ndarray) -> None:
        """Tell players of games that begin in these envs, and note who acts where from now on."""
        for player, sides, mine, numbers in self._seats(envs):
            games = self._number[self._game[mine]].tolist()
            chances = [self._chances[game][(game + side) % 2] for game, side in zip(games, sides.tolist(), strict=True)]
            player.begin(numbers, chances)
        count = self.envs.num_envs
        self._acting = [
            (player, count * sides + mine, 2 * mine + sides, numbers)
            for player, sides, mine, numbers in self._seats(np.arange(count))
        ]

    def _seats(self, envs: np.ndarray) -> Iterator[tuple[Player, np.ndarray, np.ndarray, np.ndarray]]:
        """The players who act in these envs, with their sides, their envs, and the numbers they know these by."""
        here = self._who[:, envs]
        for who in np.unique(here[here != IDLE]).tolist():
            player = self.players[who]
            if not isinstance(player, Script):
                sides, places = np.nonzero(here == who)
                yield player, sides, envs[places], envs[places] + self._first_number[who]


def _winner(infos: dict[str, Any], env: int, name: str) -> int:
    if WINNER not in infos:
        raise WorldError(f"{name} does not say who won: the last info of a game should hold {WINNER!r}, 1, 0 or -1")
    return int(np.sign(infos[WINNER][env]))
