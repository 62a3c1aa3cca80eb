"""Tournaments in parts: the same games as on one machine, wherever the parts are played and whoever is first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from rookery.cluster import ray_league
from rookery.cluster.ray_league import GamePart, RemoteGames, RemoteTournament, play_part
from rookery.errors import OptionError
from rookery.training.league.tournament import play_tournament
from rookery.training.league.tournament_report import GAMES_FILE, GameHeader, GameLog, LoggedPlayer
from rookery.training.players.agents import Script
from rookery.training.players.file_player import FilePlayer
from training.league.test_tournament import HOCKEY, hockey_agents, same, tug_agents
from training.tug import SEAT, TUG, write_agent

pytestmark = pytest.mark.usefixtures("all_allowed")


def elsewhere(duel: Any, players: Any, parts: Sequence[GamePart], seed: int, backend: str) -> Any:
    """Plays the last part first; all that is sent is pickled."""
    for part in reversed(parts):
        sent = cloudpickle.dumps((duel, *(players[k] for k in part.pair), part, seed, backend))
        yield part, cloudpickle.loads(cloudpickle.dumps(play_part(*cloudpickle.loads(sent))))


def test_results_are_those_of_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games and ratings, with parts that are smaller than the games of a pair."""
    monkeypatch.setattr(ray_league, "GAMES_OF_A_PART", 4)
    players = tug_agents(3, deterministic=False)
    here, there = play_tournament(TUG, players, 10, seed=5), RemoteTournament(elsewhere)(TUG, players, 10, seed=5)
    assert same(here, there)
    assert here.rate() == there.rate()


def test_compiled_games_are_the_same_too() -> None:
    """With agents of two kinds and scripts."""
    players = [*hockey_agents(2), Script("weak")]
    here, there = (play(HOCKEY, players, 4, seed=2) for play in (play_tournament, RemoteTournament(elsewhere)))
    assert same(here, there)


def test_a_player_in_a_file_is_made_from_the_file(tmp_path: Path) -> None:
    """Its class need not be importable where it plays."""
    spec = write_agent(tmp_path, "def act(self, obs): return 0")
    player = FilePlayer(spec, SEAT)
    assert cloudpickle.loads(cloudpickle.dumps(player)).name == player.name


def test_every_game_is_in_one_part() -> None:
    """At its own place, with an even number of games in all parts but the last of a pair."""
    games = RemoteGames(4, 150)
    places = [part.place + k for part in games.parts for k in range(part.games)]
    assert places == list(range(6 * 150))
    for part in games.parts:
        rows = slice(part.place, part.place + part.games)
        assert np.all(games.pairs[rows] == part.pair)
        assert games.numbers[rows].tolist() == list(range(part.first, part.first + part.games))


def test_games_are_logged_and_counted(tmp_path: Path) -> None:
    """All of them, as on one machine."""
    told = []
    log = GameLog(tmp_path, GameHeader("tug", 4, 1, [LoggedPlayer(str(k)) for k in range(3)]))
    RemoteTournament(elsewhere)(TUG, tug_agents(3), 4, 1, progress=lambda *counts: told.append(counts), log=log)
    log.close()
    lines = [json.loads(line) for line in (tmp_path / GAMES_FILE).read_text().splitlines()][1:]
    assert sum(len(line["winner"]) for line in lines) == 12 and told[-1] == (12, 12)


def test_one_player_is_refused() -> None:
    with pytest.raises(OptionError, match="at least two players"):
        RemoteTournament(elsewhere)(TUG, tug_agents(1), 4, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_on_ray() -> None:
    """A cluster of its own plays the same games."""
    from rookery.cluster.ray_league import open_ray_tournament

    players = [*hockey_agents(2), Script("weak")]
    with open_ray_tournament(None) as play:
        assert same(play(HOCKEY, players, 8, seed=2), play_tournament(HOCKEY, players, 8, seed=2))
