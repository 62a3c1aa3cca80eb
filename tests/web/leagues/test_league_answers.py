"""Leagues in the dashboard: the figures of `rookery league`, what comes while they play, and nothing from outside."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rookery.training.league.tournament_report import last_report
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import RunFolders
from web.leagues.recorded_league import LEAGUE, RECORDED, games_of, lines_of

OLD_RUNS = Path(__file__).parents[2] / "data" / "old_runs"
ONE = f"/api/leagues/runs/{LEAGUE}"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "runs"))


@pytest.fixture
def league(runs: Path) -> Path:
    return runs / LEAGUE / "league"


@pytest.fixture
def client(runs: Path) -> TestClient:
    return TestClient(make_app(DashboardState(RunFolders([runs]))), base_url="http://127.0.0.1")


def get(client: TestClient, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_list(client: TestClient, runs: Path) -> None:
    """Runs with a league, and no others; one that comes or goes is not an error."""
    (row,) = get(client, "/api/leagues")["leagues"]
    assert (row["id"], row["world"], row["state"], row["agents"]) == (f"runs/{LEAGUE}", "hockey", "finished", 6)
    assert row["tournament"]["players"] == 7 and row["tournament"]["games"] == 126
    last = lines_of(runs / LEAGUE / "league" / "ratings.jsonl")[-1]["players"]["the learner"]
    assert row["learner"] == {key: last[key] for key in ("mu", "sigma", "step")}
    (runs / "without").mkdir()
    shutil.copytree(runs / LEAGUE, runs / "second")
    assert [row["name"] for row in get(client, "/api/leagues")["leagues"]] == [LEAGUE, "second"]
    shutil.rmtree(runs / LEAGUE)
    assert [row["name"] for row in get(client, "/api/leagues")["leagues"]] == ["second"]
    assert "moved or deleted" in get(client, ONE, 404)["error"]


def test_the_training_league(client: TestClient, league: Path) -> None:
    """Every player as its last line has it; chances to be drawn add up to 1 over members and baselines."""
    found = get(client, ONE)["training"]
    latest: dict[str, Any] = {}
    for line in lines_of(league / "ratings.jsonl"):
        latest |= line["players"]
    rows = {row["name"]: row for row in found["players"]}
    assert rows.keys() == latest.keys()
    for name, row in rows.items():
        assert {key: row[key] for key in latest[name]} == latest[name]
    assert found["players"][-1]["kind"] == "retired"
    assert sum(row["chance"] or 0 for row in rows.values()) == pytest.approx(1.0, abs=1e-4)
    assert not any(row["chance"] for row in rows.values() if row["kind"] in ("retired", "learner"))


def test_ratings_over_time(client: TestClient, league: Path) -> None:
    """A value where a line has one, and the learner first."""
    found, lines = get(client, f"{ONE}/ratings"), lines_of(league / "ratings.jsonl")
    assert found["steps"] == [line["step"] for line in lines]
    learner = found["players"][0]
    assert learner["mu"] == [line["players"]["the learner"]["mu"] for line in lines]
    member = next(player for player in found["players"] if player["name"] == "step-12288")
    assert member["sigma"] == [line["players"].get("step-12288", {}).get("sigma") for line in lines]


def test_the_tournament_is_that_of_the_command(client: TestClient, runs: Path) -> None:
    report = last_report(runs / LEAGUE)
    assert report is not None
    found, wanted = get(client, ONE)["tournament"], report.as_json()
    for row, known in zip(found["players"], wanted["players"], strict=True):
        for key in ("name", "run", "step", "mu", "sigma", "rating", "games", "won", "drawn", "lost", "score"):
            assert row[key] == pytest.approx(known[key]) if isinstance(known[key], float) else row[key] == known[key]
    assert (found["won"], found["drawn"], found["spearman"]) == (wanted["won"], wanted["drawn"], wanted["spearman"])
    assert (found["state"], found["played"], found["games"]) == ("finished", 126, 126)


def test_a_tournament_appears_game_by_game(client: TestClient, league: Path) -> None:
    """While it is played there are no ratings; a line that is half written waits; then another tournament begins."""
    lines = (league / "games.jsonl").read_bytes().splitlines(keepends=True)
    (league / "tournament.json").unlink()
    (league / "games.jsonl").write_bytes(lines[0] + lines[1][:20])
    found = get(client, ONE)["tournament"]
    assert (found["state"], found["played"], found["players"][0]["mu"]) == ("playing", 0, None)
    with (league / "games.jsonl").open("ab") as file:
        file.write(lines[1][20:])
    found = get(client, ONE)["tournament"]
    assert found["played"] == len(json.loads(lines[1])["first"]) == sum(map(sum, found["won"]))
    os.utime(league / "games.jsonl", (1, 1))
    assert get(client, ONE)["tournament"]["state"] == "not finished"
    head = json.loads(lines[0])
    other = {**head, "id": "another", "players": head["players"][:2]}
    (league / "next").write_text(json.dumps(other) + "\n")
    (league / "next").replace(league / "games.jsonl")
    found = get(client, ONE)["tournament"]
    assert (found["id"], found["played"], len(found["players"])) == ("another", 0, 2)


def test_matches_are_found(client: TestClient, league: Path) -> None:
    """All of them, page by page; those of a player, from its side; those against another; by result."""
    games = games_of(league)
    pages = [get(client, f"{ONE}/matches?offset={start}&limit=50") for start in (0, 50, 100)]
    names = ("first", "second", "number", "winner", "length")
    listed = [game for page in pages for game in zip(*(page[name] for name in names), strict=True)]
    assert listed == games[::-1] and pages[0]["total"] == 126
    mine = get(client, f"{ONE}/matches?player=5&limit=200")
    assert set(mine["first"]) == {5} and mine["total"] == 36
    won = get(client, f"{ONE}/matches?player=5&against=0&result=won")
    wanted = [game[2] for game in games if game[:2] == (0, 5) and game[3] == -1]
    assert sorted(won["number"]) == sorted(wanted) and set(won["winner"]) == {1}


@pytest.mark.parametrize(
    "query", ["player=7", "player=-1", "player=x", "offset=1e9", "limit=" + "9" * 30, "result=best", "against=²"]
)
def test_what_cannot_be_asked_is_refused(client: TestClient, query: str) -> None:
    assert "error" in get(client, f"{ONE}/matches?{query}", 400)


def test_a_run_from_before_ratings_were_written(client: TestClient, runs: Path) -> None:
    """Its last checkpoint has the players; the learner's rating is known where an agent entered."""
    shutil.copytree(OLD_RUNS / "league", runs / "old")
    found = get(client, "/api/leagues/runs/old")
    assert found["tournament"] is None and found["training"]["step"] == 1200
    assert {row["kind"] for row in found["training"]["players"]} >= {"learner", "member"}
    curve = get(client, "/api/leagues/runs/old/ratings")
    assert [player["name"] for player in curve["players"]] == ["the learner"]
    assert curve["steps"] == sorted(curve["steps"]) and len(curve["steps"]) == len(curve["players"][0]["mu"])


def test_a_report_from_before_games_were_written(client: TestClient, league: Path) -> None:
    (league / "games.jsonl").unlink()
    report = json.loads((league / "tournament.json").read_text())
    del report["id"]
    (league / "tournament.json").write_text(json.dumps(report))
    found = get(client, ONE)["tournament"]
    assert (found["has_matches"], found["played"], len(found["players"])) == (False, 126, 7)
    assert get(client, f"{ONE}/matches")["total"] == 0


DAMAGE: dict[str, list[Any]] = {
    "ratings.jsonl": [
        b"[" * 100_000, b"\xff\xfe\n", b'{"step": "x", "players": {}}\n', b'{"step": 1, "players": {"a": 1}}\n',
        b'{"step": 1, "players": {"a": {"kind": "member", "mu": 1e999, "sigma": NaN}}}\n', b"{}\n",
    ],
    "games.jsonl": [
        b'{"id": "x", "players": [1, 2], "seed": 1, "games_per_pair": 2}\n', b'{"players": "all"}\n', b"null\n", b"",
        b'{"id": "x", "players": [{}, {}], "seed": -1, "games_per_pair": 2}\n',
        b'{"id": "x", "world": "w", "players": [{}, {}], "seed": 1, "games_per_pair": 2}\n'
        b'{"first": [9], "second": [1], "number": [0], "winner": [7], "length": [1]}\n'
        b'{"first": [0], "second": [1, 1], "number": [0], "winner": [0], "length": [1]}\n'
        b'{"first": [[0]], "second": ["a"], "number": [0], "winner": [1e30], "length": [null]}\n',
    ],
    "tournament.json": [b"{", b"[]", b'{"players": []}', b"[" * 100_000, b"0" * 1000],
}  # fmt: skip


@pytest.mark.parametrize(("file", "data"), [(file, data) for file, each in DAMAGE.items() for data in each])
def test_damaged_files_are_no_error(client: TestClient, league: Path, file: str, data: bytes) -> None:
    """What can be read is shown, and the rest is left out."""
    (league / file).write_bytes(data)
    for path in ("/api/leagues", ONE, f"{ONE}/ratings", f"{ONE}/matches"):
        get(client, path)
    if file == "tournament.json":
        assert "tournament.json" in get(client, ONE)["error"]


def test_nothing_outside_is_read(client: TestClient, runs: Path, league: Path, tmp_path: Path) -> None:
    """Neither through a link in the league, nor through the league as a link, nor by a name."""
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes((league / "ratings.jsonl").read_bytes())
    for name in ("ratings.jsonl", "games.jsonl", "tournament.json"):
        (league / name).unlink()
        (league / name).symlink_to(secret)
    found = get(client, ONE)
    assert found["training"] is None and found["tournament"] is None
    assert get(client, "/api/leagues")["leagues"][0]["learner"] is None
    league.rename(tmp_path / "elsewhere")
    league.symlink_to(tmp_path / "elsewhere")
    get(client, ONE, 404)
    for path in ("nowhere/x", "runs/x", "runs/%00", "runs/..%5c..", f"runs:{LEAGUE}/x", "runs/" + 300 * "x"):
        get(client, f"/api/leagues/{path}", 404)


def test_a_pipe_does_not_hold_it_up(client: TestClient, league: Path) -> None:
    (league / "games.jsonl").unlink()
    os.mkfifo(league / "games.jsonl")
    assert get(client, ONE)["tournament"] is not None


def test_many_lines_are_thinned_out(client: TestClient, league: Path) -> None:
    """The last rating of each player stays, however many lines there are."""
    with (league / "ratings.jsonl").open("w") as file:
        for step in range(5001):
            players = {f"p{k}": {"kind": "other", "mu": step + k, "sigma": 1} for k in (0, 1 + step % 2)}
            file.write(json.dumps({"step": step, "time": 1, "players": players}) + "\n")
    found = get(client, f"{ONE}/ratings")
    assert len(found["steps"]) <= 801 and found["steps"][-1] == 5000
    assert {player["name"]: player["mu"][-1] for player in found["players"]}["p0"] == 5000
