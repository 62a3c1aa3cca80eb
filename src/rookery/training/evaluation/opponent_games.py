"""Games of an agent against opponents by name, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rookery.learners.agent import Agent
from rookery.training.evaluation.episode_envs import KERNEL_ENVS, PYTHON_ENVS
from rookery.training.evaluation.game_envs import GameEnvs
from rookery.training.evaluation.match import Match
from rookery.training.evaluation.win_record import GameResults
from rookery.training.players.agents import Player, Script, find_player, seated
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, is_two_player, not_for_two_players, two_player_form


class OpponentGames:
    """The opponents of evaluations, and the envs they play in, which are kept between evaluations."""

    def __init__(
        self,
        world: World,
        backend: str,
        opponents: Sequence[str],
        runs_dir: str | Path = "runs",
        deterministic: bool = True,
        *,
        games: int = 1,
        num_envs: int = 1,
        **options: Any,
    ) -> None:
        """`games` are played at a time, in as many envs as the world has room for; `num_envs` train. `options` are
        those of `make_vec`."""
        self.world, self.deterministic = two_player_form(world), deterministic
        batch = min(games, KERNEL_ENVS if self.world.kernel else min(num_envs, PYTHON_ENVS))
        self._make = lambda: GameEnvs(self.world, batch, backend, **options)
        self._games: GameEnvs | None = None if self.world.kernel else self._make()  # whose first env has the spaces
        try:
            self.seat = self._find_seat()
            found = [find_player(who, self.seat, runs_dir, deterministic=deterministic) for who in opponents]
            self.opponents = _by_name(found)
            self._check_scripts()
        except BaseException:
            self.close()
            raise

    def _find_seat(self) -> Seat:
        seat = seat_of(*self.world.spaces) if self._games is None else self._games.seat
        if seat is None:
            raise not_for_two_players(self.world)
        return seat

    def _check_scripts(self) -> None:
        """Refuse scripts that the world does not have now, not after hours."""
        if not is_two_player(self.world) and any(isinstance(x, Script) for x in self.opponents.values()):
            self._games = self._games or self._make()
            self._games.check(*self.opponents.values())

    def play(
        self,
        agent: Agent | Player | Script,
        games: int,
        seed: int,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[str, int], None] = lambda name, done: None,
        first: int = 0,
    ) -> dict[str, GameResults] | None:
        """Play so many games against each opponent, numbered from `first`; None if `stop()` was true before the end."""
        if isinstance(agent, Agent):
            agent = seated(agent, "agent", self.seat, deterministic=self.deterministic)
        envs = self._games = self._games or self._make()
        results: dict[str, GameResults] = {}
        for name, opponent in self.opponents.items():
            played = Match(envs, (agent, opponent), games, seed, first).play(stop, partial(progress, name))
            if played is None:
                return None
            results[name] = played
        return results

    @property
    def restarts(self) -> int:
        """How many times an env failed and was restarted; its games were played again."""
        return 0 if self._games is None else self._games.envs.restarts

    def close(self) -> None:
        """Close the env."""
        if self._games is not None:
            self._games.close()
            self._games = None


def _by_name(players: Sequence[Player | Script]) -> dict[str, Player | Script]:
    """Players by unique names."""
    named: dict[str, Player | Script] = {}
    for player in players:
        name, number = player.name, 1
        while name in named:
            number += 1
            name = f"{player.name}-{number}"
        named[name] = player
    return named
