"""The games of a tournament: all of them are in the file, and each can be played again as it was."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.engine.env_factory import kernel_of, resolve
from rookery.errors import FileError
from rookery.kernel.kernel_env import KernelEnv
from rookery.training.league.ratings import PairResults
from rookery.training.league.tournament import PlayerSource, play_tournament, source_of
from rookery.training.league.tournament_report import GameHeader, GameLog, LoggedPlayer
from rookery.training.players.agents import Script, find_player, seated
from rookery.training.resolve.seats import seat_of
from rookery.training.resolve.world_choice import World, duel_of, find
from rookery.training.show.episode import ReplayedGame
from rookery.training.storage import checkpoint
from training.league.agents import agent_tree
from training.tug import SEAT, TUG, Puller, Scripted, Tug, agent

HOCKEY = duel_of(find("hockey", options={"time_limit": 60}))


def played(folder: Path, world: World, players: list[Any], games: int, seed: int) -> tuple[PairResults, list[dict]]:
    """A tournament, and the lines of its file."""
    header = GameHeader(world.name, games, seed, [LoggedPlayer(player.name) for player in players])
    with closing(GameLog(folder, header)) as log:
        results = play_tournament(world, players, games, seed, log=log)
    return results, [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()]


def games_in(lines: list[dict]) -> np.ndarray:
    names = ("first", "second", "number", "winner", "length")
    return np.concatenate([np.stack([line[name] for name in names], axis=1) for line in lines[1:]])


def test_every_game_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, with its result; in lines of limited length, as they end."""
    monkeypatch.setattr("rookery.training.league.tournament_report.SECONDS", 0.0)
    monkeypatch.setattr("rookery.training.league.tournament_report.LONGEST", 5)
    players = [Puller(strength) for strength in (0.1, 0.5, 0.9)]
    results, lines = played(tmp_path, TUG, players, 12, seed=1)
    games = games_in(lines)
    assert [lines[0][key] for key in ("world", "games_per_pair", "seed")] == ["tug", 12, 1]
    assert len(games) == len({tuple(game[:3]) for game in games.tolist()}) == 36
    assert np.array_equal(PairResults.of(3, games[:, :2], games[:, 3]).won, results.won)
    assert max(len(line["first"]) for line in lines[1:]) <= 5


def test_the_next_tournament_replaces_the_file(tmp_path: Path) -> None:
    """The same games have the same id, whenever they are played."""
    made = [played(tmp_path, TUG, [Puller(0.1), Puller(0.5)], 2, seed)[1] for seed in (1, 1, 2)]
    assert made[2][0]["seed"] == 2 and len(games_in(made[2])) == 2
    assert made[0][0]["id"] == made[1][0]["id"] != made[2][0]["id"]
    (tmp_path / "games.jsonl").unlink()
    (tmp_path / "games.jsonl").mkdir()
    with pytest.raises(FileError):
        played(tmp_path, TUG, [Puller(0.1), Puller(0.5)], 2, seed=1)


def assert_replayed(env: Any, seat: Any, players: list[Any], lines: list[dict]) -> None:
    for first, second, number, winner, length in games_in(lines).tolist():
        game = ReplayedGame(env, seat, (players[first], players[second]), lines[0]["seed"], number)
        for _ in range(2):  # a second time, too
            game.begin()
            while game.winner is None:
                game.step()
            assert (-game.winner if number % 2 else game.winner, game.steps) == (winner, length)
            game.step()  # nothing more happens
            assert game.steps == length


def test_a_game_is_played_again_as_it_was(tmp_path: Path) -> None:
    """Agents that sample their actions, random actions, and scripts on either side."""
    sampling = [seated(agent(seed=seed), f"agent {seed}", SEAT, deterministic=False) for seed in range(2)]
    players = [*sampling, find_player("random", SEAT)]
    _, lines = played(tmp_path, TUG, players, 6, seed=4)
    assert_replayed(Tug(), SEAT, players, lines)
    scripted = [Script("weak"), sampling[0], Script("strong")]
    _, lines = played(tmp_path, World("scripted", Scripted, kernel=False), scripted, 4, seed=4)
    assert_replayed(Scripted(), SEAT, scripted, lines)


def test_hockey_is_played_again_as_it_was(tmp_path: Path) -> None:
    seat = seat_of(*HOCKEY.spaces)
    assert seat is not None
    agents = [seated(agent(seed=seed, seat=seat), f"agent {seed}", seat) for seed in range(2)]
    players = [*agents, Script("strong"), Script("weak")]
    _, lines = played(tmp_path, HOCKEY, players, 4, seed=2)
    kernel = kernel_of(resolve(HOCKEY.source, kwargs=HOCKEY.env_kwargs))
    assert kernel is not None
    assert_replayed(HOCKEY.factory.wrap(KernelEnv(kernel.world)), seat, players, lines)


@pytest.mark.parametrize(
    ("who", "source"),
    [("basic_weak", "script:weak"), ("random", "random"), ("hockey", "shipped:hockey"), ("a.py:Agent", None)],
)
def test_players_are_known_by_name(who: str, source: str | None, tmp_path: Path) -> None:
    assert source_of(who, tmp_path) == PlayerSource(source)


def test_agents_are_known_by_their_place_and_their_weights(tmp_path: Path) -> None:
    """Two agents have different hashes, in a league and in checkpoints; a folder elsewhere is not known."""
    folders = [tmp_path / "run" / name for name in ("league/step-7", "checkpoints/step-000000000007")]
    for seed, folder in enumerate([*folders, tmp_path / "mine"]):
        folder.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.save(folder, {"agent": agent_tree(seed)})
    found = [source_of(str(folder), tmp_path) for folder in folders]
    assert [(each.source, each.run) for each in found] == [
        ("league/step-7", "run"), ("checkpoints/step-000000000007", "run"),
    ]  # fmt: skip
    assert len({each.sha256 for each in found}) == 2
    assert source_of(str(tmp_path / "mine"), tmp_path) == PlayerSource()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert source_of("run", tmp_path) == found[1]
