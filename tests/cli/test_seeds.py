"""`rookery train --seeds`: what the command says and refuses."""

from __future__ import annotations

import json

import pytest

from rookery.cli.main import main
from rookery.training.seeds import train_seeds
from rookery.training.seeds.train_seeds import SeedsResult

ROWS = [
    {"seed": 1, "name": "a-s1", "path": "runs/a-s1", "steps": 100, "state": "finished"},
    {"seed": 2, "name": "a-s2", "path": "runs/a-s2", "steps": 50, "state": "interrupted"},
    {"seed": 3, "name": "a-s3", "path": "runs/a-s3", "steps": None, "state": "waiting"},
]
MEAN = {"iqm": 470.0, "low": 450.5, "high": 500.0, "seeds": 2}
RESULT = SeedsResult(ROWS, MEAN, None, {4: "the env is broken"}, None, 130)


@pytest.fixture
def asked(monkeypatch):
    """The arguments of the call that would train."""
    calls = []
    monkeypatch.setattr(train_seeds, "train_seeds", lambda *arguments: calls.append(arguments) or RESULT)
    return calls


@pytest.mark.parametrize(
    ("words", "seeds"),
    [(["--seeds", "3"], [0, 1, 2]), (["--seeds", "2", "--seed", "7"], [7, 8]), (["--seeds=4,2"], [4, 2])],
)
def test_seeds_are_counted_from_the_seed_or_listed(asked, words, seeds):
    assert main(["train", "CartPole-v1", *words, "--jobs", "3"]) == 130
    ((config, found, jobs),) = asked
    assert (config.world, found, jobs) == ("CartPole-v1", seeds, 3)


def test_the_summary_says_how_to_continue(asked, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/bin/rookery", "train", "my env.py:E", "--seeds", "3"])
    main(["train", "CartPole-v1", "--seeds", "3"])
    out = capsys.readouterr().out
    assert "interquartile mean 470 over 2 seeds, 95 % interval 450.5 to 500" in out
    assert "2 of 3 runs have not finished" in out and "rookery train 'my env.py:E' --seeds 3" in out
    assert "rookery resume runs/a-s2" in out and "a-s3" not in out and "seed 4 failed: the env is broken" in out


def test_the_summary_as_json(asked, capsys):
    main(["train", "CartPole-v1", "--seeds", "3", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["evaluation"] == MEAN and found["confidence"] == 0.95 and found["errors"] == {"4": "the env is broken"}


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--seeds", "1,2", "--seed", "3"], "`seed` = 3 has no use"), (["--seeds", "many"], "--seeds should be"),
     (["--jobs", "2"], "--jobs says how many of --seeds")],
)  # fmt: skip
def test_contradictions_are_refused(asked, capsys, words, message):
    assert main(["train", "CartPole-v1", *words]) == 2
    assert message in capsys.readouterr().err and not asked
