"""`rookery league`: what it shows of a run, the tournaments it holds, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.config import collect_config, resolve
from rookery.config.sections import LeagueOptions
from rookery.training.league.archive import FOLDER
from rookery.training.league.league import League
from rookery.training.league.ratings import spearman
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir
from training.league.agents import agent_tree


def make_run(base, name="made", members=(100, 200, 300), step=400, size=2, course=True):
    """A run as training leaves it, whose league has met some opponents."""
    run = RunDir.create(base, name)
    run.write_config(resolve(collect_config("hockey", learner="ppo")).model_dump(mode="json"))
    league = League(run.path / FOLDER, LeagueOptions(size=size), total_steps=1000, scripts=("weak", "strong"))
    for number, entered in enumerate(members):
        league.enter(entered, agent_tree(entered))
        for outcome in (1, 1, 0, -1)[: 4 - number]:
            league.add_game(f"step-{entered}", outcome)
    league.add_game("strong", -1)
    tree = {"agent": agent_tree(step), "course": {"league": league.state()} if course else {}}
    Checkpoints(run.checkpoints).save(step, tree)
    return run


def call(capsys, base, *arguments):
    status = main(["league", *arguments, "--runs-dir", str(base)])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_table_of_a_run(tmp_path, capsys):
    """Everyone with rating and games; who left is marked, and comes last; the picture is drawn."""
    run = make_run(tmp_path)
    status, out, _ = call(capsys, tmp_path, "made")
    lines = out.splitlines()
    assert status == 0 and "league of made at step 400: 2 agents" in lines[0]
    for word in ("rating", "±", "at least", "games", "recent win rate"):
        assert word in lines[1]
    names = {line.split()[0] for line in lines[2:7]}
    assert names == {"step-100", "step-200", "step-300", "strong", "the"}
    assert [line.split()[0] for line in lines if "retired" in line] == [lines[6].split()[0]]
    assert str(run.plots / "league.png") in out and (run.plots / "league.png").stat().st_size > 10_000


def test_the_table_as_json(tmp_path, capsys):
    """One object with all figures, and nothing else on standard output."""
    make_run(tmp_path)
    status, out, _ = call(capsys, tmp_path, "made", "--json")
    shown = json.loads(out)
    (league,) = shown["leagues"]
    rows = {row["name"]: row for row in league["agents"]}
    assert status == 0 and league["step"] == 400 and shown["tournament"] is None
    assert rows["step-100"]["games"] == 4 and rows["step-100"]["won"] == 2
    assert rows["strong"]["kind"] == "other" and rows["strong"]["lost"] == 1
    assert rows["the learner"]["rating"] == pytest.approx(rows["the learner"]["mu"] - 3 * rows["the learner"]["sigma"])


@pytest.mark.slow
def test_a_tournament(tmp_path, capsys):
    """Members who are still in it, the latest agent and who else is named; kept, and shown again without playing."""
    run = make_run(tmp_path)
    status, out, _ = call(capsys, tmp_path, "made", "--games", "2", "--with", "weak,strong", "--seed", "3")
    assert status == 0 and "made · hockey: 5 players, 2 games a pair, seed 3" in out
    rows = out.splitlines()[2:7]
    names = {row.split()[0] for row in rows}
    assert {"latest", "weak", "strong", "step-300"} < names and len(names) == 5
    values = [float(row.split()[4]) for row in rows]
    assert values == sorted(values, reverse=True)
    kept = json.loads((run.path / "league" / "tournament.json").read_text())
    assert kept["games_per_pair"] == 2 and len(kept["won"]) == 5
    ratings, scores = np.array([(player["rating"], player["score"]) for player in kept["players"]]).T
    assert kept["spearman"]["score"] == pytest.approx(spearman(ratings, scores))  # of so few games it may be anything
    assert all(player["games"] == 8 for player in kept["players"])
    _, out, _ = call(capsys, tmp_path, "made", "--json")
    assert json.loads(out)["tournament"] == kept


@pytest.mark.slow
def test_a_tournament_is_the_same_each_time(tmp_path, capsys):
    """Its seed is one of the run's own, if none is given."""
    make_run(tmp_path)
    one, other = (
        json.loads(call(capsys, tmp_path, "made", "--games", "2", "--json")[1])["tournament"] for _ in range(2)
    )
    assert one | {"time": 0} == other | {"time": 0}


@pytest.mark.slow
def test_a_league_across_runs(tmp_path, capsys):
    """Agents have their run's name before their own; the picture goes where it is wanted."""
    make_run(tmp_path, "one")
    make_run(tmp_path, "two")
    picture = tmp_path / "both.svg"
    _, out, _ = call(capsys, tmp_path, "one", "two", "--games", "2", "--plot", str(picture), "--json")
    names = {player["name"] for player in json.loads(out)["tournament"]["players"]}
    assert {"one/latest", "two/latest", "one/step-300", "two/step-300"} <= names and len(names) == 6
    assert picture.stat().st_size > 10_000


def test_a_run_without_an_archive_enters_its_checkpoints(tmp_path, capsys):
    """So that any run can have a tournament; but there is no table to show."""
    run = make_run(tmp_path, "plain", members=(), course=False)
    Checkpoints(run.checkpoints).save(500, {"agent": agent_tree(500)})
    status, _, err = call(capsys, tmp_path, "plain")
    assert status == 2 and "has no league" in err and "--games" in err
    _, out, _ = call(capsys, tmp_path, "plain", "--games", "2", "--json")
    assert {player["name"] for player in json.loads(out)["tournament"]["players"]} == {"step-400", "step-500"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "there is no run 'nobody'"),
        (["made", "--games", "0"], "games"),
        (["made", "--with", "weak"], "give --games as well"),
        (["made", "--games", "2", "--with", "nobody"], "there is no player 'nobody'"),
        (["made", "--games", "2", "--seed", "-1"], "seed"),
        (["made", "--plot", "picture.doc"], "plot should name a file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, capsys, arguments, words):
    """On standard error, with status 2."""
    make_run(tmp_path)
    status, out, err = call(capsys, tmp_path, *arguments)
    assert status == 2 and out == "" and words in err


def test_one_agent_is_no_tournament(tmp_path, capsys):
    """It says whom to invite."""
    make_run(tmp_path, "alone", members=(), course=False)
    status, _, err = call(capsys, tmp_path, "alone", "--games", "2")
    assert status == 2 and "needs two players" in err and "--with" in err


def test_a_damaged_member_is_named(tmp_path, capsys):
    """And a damaged report, with what to do."""
    run = make_run(tmp_path)
    (run.path / "league" / "step-300" / "agent.safetensors").write_bytes(b"")
    status, _, err = call(capsys, tmp_path, "made", "--games", "2")
    assert status == 2 and "step-300 of the league" in err
    (run.path / "league" / "tournament.json").write_text("{")
    status, _, err = call(capsys, tmp_path, "made")
    assert status == 2 and "tournament.json" in err


def test_a_world_for_one_is_refused_before_a_cluster_is_started(tmp_path, capsys, monkeypatch):
    """Which takes many seconds."""
    from rookery.cluster import ray_league

    started = []
    monkeypatch.setattr(ray_league, "open_ray", started.append)
    run = make_run(tmp_path)
    run.write_config(resolve(collect_config("CartPole-v1", learner="ppo")).model_dump(mode="json"))
    status, _, err = call(capsys, tmp_path, "made", "--games", "2", "--on", "ray")
    assert status == 2 and "CartPole-v1 is not a two-player game" in err and not started
