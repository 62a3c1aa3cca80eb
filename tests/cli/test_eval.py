"""`rookery eval` against others: what it understands, what it prints, and how it exits."""

from __future__ import annotations

import io
import json
import sys

import pytest

import rookery
from rookery.cli.main import main
from rookery.training.evaluation.evaluate import counting
from training.finished import STEP, make_run
from training.tug import write_agent

SHORT = ["--set", "world_options.time_limit=30", "--games", "2"]


@pytest.mark.slow
def test_a_run_against_one_opponent(tmp_path, capsys):
    make_run(tmp_path, "hockey", "sac")
    words = ["eval", "finished", "--runs-dir", str(tmp_path), "--opponent", "strong", "--seed", "7", *SHORT]
    assert main([*words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["run"], figures["step"], figures["opponent"]) == ("finished", STEP, "strong")
    assert (figures["games"], figures["seed"]) == (2, 7)
    low, high = figures["win_rate_interval"]
    assert low <= figures["win_rate"] <= high
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("finished at step 1,000, seed 7, ")
    assert lines[1].startswith("against ") and "won (95 % CI)" in lines[1]
    assert lines[2].startswith("strong ") and len(lines) == 3


@pytest.mark.parametrize("who", ["hockey", "file"])
def test_an_agent_without_a_run_meets_both_scripts(tmp_path, capsys, who):
    name = write_agent(tmp_path, "def act(self, obs):\n    return np.zeros(4)") if who == "file" else who
    assert main(["eval", name, "--runs-dir", str(tmp_path), *SHORT, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["agent"] == ("agent.Agent" if who == "file" else "hockey")
    assert [row["opponent"] for row in figures["opponents"]] == ["weak", "strong"]


def test_opponents_can_be_several(tmp_path, capsys):
    make_run(tmp_path, "hockey")
    words = ["eval", "hockey", "--runs-dir", str(tmp_path), "--opponent", "none", "--opponent", "finished", *SHORT]
    assert main([*words, "--stochastic"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["against", "none", "finished"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody", "--opponent", "weak"], "there is no run 'nobody'"),
        (["hockey", "--opponent", "stron"], "there is no player 'stron': give none, weak or strong"),
        (["hockey", "--opponent", "agent.py:Agent"], "there is no file 'agent.py'"),
        (["hockey", "--games", "0"], "should be a positive integer, got 0"),
        (["hockey", "--seed", "-1"], "seed should be an integer >= 0 and < 9223372036854775808, got -1"),
        (["hockey", "--set", "mode=shooting"], "unknown key `mode`; an option of the world is `world_options.mode`"),
        (["hockey", "--set", "ppo.clip=0.1"], "`ppo` has no effect on an evaluation; these have: world, world_options"),
        (["hockey", "--set", "evaluation.every=5"], "`evaluation.every` has no effect on an evaluation"),
        (["hockey", "--set", "evaluation.episodes=0"], "`evaluation.episodes` should be"),
        (["hockey", "--world", "CartPole-v1"], "CartPole-v1 is not a two-player game"),
    ],
)
def test_bad_input(tmp_path, capsys, words, message):
    """Status 2 and one line."""
    assert main(["eval", *words, "--runs-dir", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1


def test_the_folder_of_an_agent_is_evaluated_in_the_world_that_is_named(tmp_path, capsys):
    """In one with a single seat, episodes are played."""
    folder = rookery.load(make_run(tmp_path, "CartPole-v1").path).save(tmp_path / "saved")
    assert main(["eval", str(folder), "--world", "CartPole-v1", "--episodes", "2"]) == 0
    out = capsys.readouterr().out
    assert "mean return" in out and "won" not in out


def test_an_agent_that_fails_is_shown_its_place(tmp_path, capsys):
    place = write_agent(tmp_path, "def act(self, obs):\n    return 1 / 0")
    assert main(["eval", place, "--runs-dir", str(tmp_path), *SHORT]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err and "agent.py" in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_games_are_counted_on_a_terminal(monkeypatch):
    for stream, shown in ((Terminal(), "\r\x1b[Kagainst weak: 3 of 10 games\r\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        with counting(10) as progress:
            progress("weak", 3)
            progress("weak", 4)  # too soon after the other
        assert stream.getvalue() == shown


def test_episodes_are_counted_on_a_terminal(tmp_path, monkeypatch):
    make_run(tmp_path, "CartPole-v1")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    assert main(["eval", "finished", "--runs-dir", str(tmp_path), "--episodes", "2"]) == 0
    assert "\r\x1b[K0 of 2 episodes" in stream.getvalue()
