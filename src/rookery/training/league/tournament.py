"""A tournament: a match of many players in one batch of envs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.training.evaluation.game_envs import GameEnvs
from rookery.training.evaluation.match import Match
from rookery.training.league.pair_results import PairResults
from rookery.training.players.agents import Player, Script
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.world_choice import World

AT_ONCE = 1024  # games, where steps are cheap: enough that call overhead is small, few enough to stay in caches
FEW_AT_ONCE = 64  # games, where steps are not cheap, or a player from a file has an instance per game


def play_tournament(
    duel: World,
    players: Sequence[Player | Script],
    games: int,
    seed: int,
    *,
    batch: int | None = None,
    backend: str = "serial",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PairResults:
    """Play so many games of every two players.

    Args:
        duel: The world, as `duel_of` gives it.
        games: For each pair; of an even number, both play half from either side.
        batch: How many games are played at once.
        backend: As for the envs of the training run.
        progress: Called after games with the number of finished games and of all games.
    """
    positive_int("games", games)
    if len(players) < 2:
        raise OptionError(f"a tournament needs at least two players, got {len(players)}")
    batch = batch or _default_batch(duel, players)
    pairs = len(players) * (len(players) - 1) // 2
    with closing(GameEnvs(duel, min(batch, pairs * games), backend)) as envs:
        match = Match(envs, players, games, seed)
        played = match.play(progress=lambda done: progress(done, match.games))
    assert played is not None  # nobody asked it to stop
    return PairResults.of(len(players), match.pairs, played.winners)


def _default_batch(duel: World, players: Sequence[Player | Script]) -> int:
    from_files = any(isinstance(player, FilePlayer) for player in players)
    return AT_ONCE if duel.kernel and not from_files else FEW_AT_ONCE
