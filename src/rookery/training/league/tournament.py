"""A tournament: a match of many players in one batch of envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol

from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.training.evaluation.game_envs import GameEnvs
from rookery.training.evaluation.match import Match
from rookery.training.league.game_log import GameLog
from rookery.training.league.pair_results import PairResults
from rookery.training.players.agents import Player, Script
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.world_choice import World

AT_ONCE = 1024  # games, where steps are cheap: enough that call overhead is small, few enough to stay in caches
FEW_AT_ONCE = 64  # games, where steps are not cheap, or a player from a file has an instance per game


class PlayTournament(Protocol):
    """Plays a tournament, as `play_tournament` does."""

    def __call__(
        self,
        duel: World,
        players: Sequence[Player | Script],
        games: int,
        seed: int,
        *,
        backend: str,
        progress: Callable[[int, int], None],
        log: GameLog | None,
    ) -> PairResults: ...


def play_tournament(
    duel: World,
    players: Sequence[Player | Script],
    games: int,
    seed: int,
    *,
    batch: int | None = None,
    backend: str = "serial",
    progress: Callable[[int, int], None] = lambda done, total: None,
    log: GameLog | None = None,
) -> PairResults:
    """Play so many games of every two players.

    Args:
        duel: The world, as `duel_of` gives it.
        games: For each pair; of an even number, both play half from either side.
        batch: How many games are played at once.
        backend: As for the envs of the training run.
        progress: Called after games with the number of finished games and of all games.
        log: The games are written to it as they end.
    """
    positive_int("games", games)
    if len(players) < 2:
        raise OptionError(f"a tournament needs at least two players, got {len(players)}")
    batch = batch or default_batch(duel, players)
    pairs = len(players) * (len(players) - 1) // 2
    with closing(GameEnvs(duel, min(batch, pairs * games), backend)) as envs:
        match = Match(envs, players, games, seed)

        def told(done: int) -> None:
            progress(done, match.games)
            if log is not None:
                log.add(match, last=done == match.games)

        played = match.play(progress=told)
    assert played is not None  # nobody asked it to stop
    return PairResults.of(len(players), match.pairs, played.winners)


def default_batch(duel: World, players: Sequence[Player | Script]) -> int:
    """How many games are played at once."""
    from_files = any(isinstance(player, FilePlayer) for player in players)
    return AT_ONCE if duel.kernel and not from_files else FEW_AT_ONCE
