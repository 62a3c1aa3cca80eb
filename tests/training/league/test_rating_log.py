"""The ratings of a league over the steps: only what has changed, nothing after a resume that did not happen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.config.sections import LeagueOptions
from rookery.errors import FileError
from rookery.training.league.league import League
from rookery.training.storage.run_dir import RunDir
from training.league.agents import agent_tree


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "league" / "ratings.jsonl").read_text().splitlines()]


@pytest.fixture
def league(tmp_path: Path) -> League:
    return League(tmp_path / "league", LeagueOptions(every=100), total_steps=2000, scripts=("weak", "strong"))


def test_lines_hold_what_has_changed(league: League, tmp_path: Path) -> None:
    """All players at first, then those that have played or retired."""
    league.enter(100, agent_tree())
    league.add_game("weak", 1)
    league.log_ratings(0, 100)
    league.log_ratings(100, 105)
    league.add_game("step-100", -1)
    league.log_ratings(105, 110)
    first, second = lines(tmp_path)
    assert (first["step"], second["step"]) == (100, 110)
    assert set(first["players"]) == {"the learner", "step-100", "weak"}
    assert set(second["players"]) == {"the learner", "step-100"}
    assert second["players"]["step-100"] == {
        "kind": "member", "step": 100, "won": 0, "drawn": 0, "lost": 1,
        "mu": round(league.archive.members[0].record.rating.mu, 4),
        "sigma": round(league.archive.members[0].record.rating.sigma, 4),
        "win_rate": round(league.archive.members[0].record.win_rate, 4),
    }  # fmt: skip


def test_there_are_about_two_hundred_lines(league: League, tmp_path: Path) -> None:
    """However often the loop asks; an agent that enters gets a line at once."""
    for step in range(0, 2000, 2):
        league.add_game("weak", 0)
        league.log_ratings(step, step + 2, now=step == 1000)
    assert len(lines(tmp_path)) == 201


def test_a_resumed_run_continues_the_file(league: League, tmp_path: Path) -> None:
    """Lines of steps that are made again go, and the next one has all players."""
    run = RunDir(tmp_path)
    for step in (100, 200, 300):
        league.add_game("weak", 1)
        league.log_ratings(step - 100, step)
    with run.ratings.open("a") as file:
        file.write('{"step": 200, "pl')
    run.truncate_after(200)
    assert [line["step"] for line in lines(tmp_path)] == [100, 200]
    again = League(tmp_path / "league", LeagueOptions(), total_steps=2000)
    again.load(league.state())
    again.log_ratings(200, 300)
    assert set(lines(tmp_path)[-1]["players"]) == {"the learner", "weak"}


def test_nothing_is_written_through_a_link(league: League, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "league").mkdir()
    (tmp_path / "league" / "ratings.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError):
        league.log_ratings(0, 100)
    assert (tmp_path / "elsewhere").read_text() == "mine"
