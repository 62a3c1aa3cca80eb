"""A match in the page is the match that was played: same players, same seed, same end."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rookery.training.league.tournament import enter_tournament
from rookery.training.storage.run_dir import RunDir
from rookery.web.play.play_request import PlayRequest, ReplayRequest, read_replay
from rookery.web.play.replay_session import open_replay
from rookery.web.play.session_main import PlayLoop
from rookery.web.run_folders import NotShown, RunFolders
from web.leagues.recorded_league import LEAGUE, RECORDED, games_of, lines_of


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "runs"))


def query(runs: Path, first: int, second: int, number: int, **others: str) -> dict[str, str]:
    id = lines_of(runs / LEAGUE / "league" / "games.jsonl")[0]["id"]
    match = {"first": str(first), "second": str(second), "number": str(number)}
    return {"league": f"runs/{LEAGUE}", "tournament": id, **match, **others}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tournament that is played here, as another machine may round otherwise: two agents as checkpoints, scripts and
    random actions."""
    runs = Path(shutil.copytree(RECORDED, tmp_path_factory.mktemp("played") / "runs"))
    run = runs / LEAGUE
    for step in (20480, 24576):
        shutil.copytree(run / "league" / f"step-{step}", run / "checkpoints" / f"step-{step:012}")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "world_options": {"time_limit": 60}}))
    enter_tournament([RunDir(run)], 2, others=["weak", "strong", "random"], runs_dir=runs).hold()
    return runs


def test_matches_end_as_they_did(played: Path) -> None:
    """Two agents, an agent and a script, two scripts, random actions; from either side."""
    games = games_of(played / LEAGUE / "league")
    assert len(games) == 20 and len({game[4] for game in games}) > 1
    for first, second, number, _, length in games[::3]:
        request = read_replay(query(played, first, second, number), RunFolders([played]))
        assert ReplayRequest.from_json(request.as_json()) == request
        with open_replay(request) as session:
            for _ in range(length - 1):
                session.step()
            assert session.frame(False)[0]["as_recorded"] is None
            session.step()
            message = session.frame(True)[0]
            assert (message["as_recorded"], message["steps"]) == (True, length)
            won = {"won": 1, "lost": -1, "drawn": 0}[message["last_outcome"]]
            assert message["hockey"]["winner"] == won
            json.dumps([session.describe(), message])


def test_another_end_than_the_recorded_one_is_told(played: Path) -> None:
    first, second, number, _, length = games_of(played / LEAGUE / "league")[0]
    request = read_replay(query(played, first, second, number), RunFolders([played]))
    with open_replay(replace(request, length=length + 1)) as session:
        for _ in range(length):
            session.step()
        assert session.frame(False)[0]["as_recorded"] is False


def test_other_requests_are_not_replays() -> None:
    assert ReplayRequest.from_json(PlayRequest("hockey", "hockey", shipped=True).as_json()) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tournament": "other"}, "another has been played since"),
        ({"number": "77"}, "no match 77"),
        ({"first": "-1"}, "integer"),
        ({"league": f"runs/../{LEAGUE}"}, "not a name"),
        ({"league": "runs/nothing"}, "moved or deleted"),
        ({"league": ""}, "no folder"),
    ],
)
def test_what_is_not_there_is_refused(runs: Path, change: dict[str, str], sentence: str) -> None:
    with pytest.raises(NotShown, match=sentence):
        read_replay(query(runs, 0, 1, 0) | change, RunFolders([runs]))


def changed_player(runs: Path, **values: Any) -> None:
    path = runs / LEAGUE / "league" / "games.jsonl"
    head, *rest = path.read_text().splitlines(keepends=True)
    known = json.loads(head)
    known["players"][0].update(values)
    path.write_text(json.dumps(known) + "\n" + "".join(rest))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"sha256": "00"}, "weights have changed"),
        ({"sha256": None}, "weights have changed"),
        ({"source": None}, "not known where"),
        ({"source": "league/../../secret"}, "not known where"),
        ({"source": "file:evil.py"}, "not known where"),
        ({"source": "script:evil"}, "not known where"),
        ({"source": "league/step-5"}, "not there any more"),
        ({"run": "../x"}, "not there any more"),
    ],
)
def test_only_the_same_players_play_again(runs: Path, values: dict[str, Any], sentence: str) -> None:
    changed_player(runs, **values)
    with pytest.raises(NotShown, match=sentence):
        read_replay(query(runs, 0, 1, 0), RunFolders([runs]))


def test_other_weights_are_noticed(runs: Path) -> None:
    """Whoever replaces an agent cannot pass it off as the one that played."""
    members = runs / LEAGUE / "league"
    shutil.rmtree(members / "step-12288")
    shutil.copytree(members / "step-16384", members / "step-12288")
    with pytest.raises(NotShown, match="weights have changed"):
        read_replay(query(runs, 0, 1, 0), RunFolders([runs]))


def test_a_page_can_steer_it(played: Path) -> None:
    """By the messages of any session; its actions and its seed are given."""
    first, second, number, _, _ = games_of(played / LEAGUE / "league")[0]
    sent: list[Any] = []

    class Channel:
        def send(self, message: Any, image: Any) -> None:
            sent.append(message)

        def alive(self) -> None: ...

        def receive(self, seconds: float) -> list[Any]:
            return []

    with open_replay(read_replay(query(played, first, second, number), RunFolders([played]))) as session:
        loop = PlayLoop(session, None, Channel())  # type: ignore[arg-type]
        for message in ({"step": True}, {"step": True}, {"deterministic": False}, {"keys": {"held": ["left"]}}):
            loop.follow(message)
        loop.turn()
        assert sent[-1]["steps"] == 2 and sent[-1]["paused"]
        loop.follow({"seed": 5})
        loop.turn()
        assert sent[-1]["steps"] == 0
