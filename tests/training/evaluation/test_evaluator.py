"""Evaluations during a run, against opponents by name."""

from __future__ import annotations

from contextlib import closing

import pytest

from rookery.errors import OptionError, WorldError
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.resolve.seats import seat_of
from rookery.training.resolve.world_choice import duel_of, find
from training.finished import make_run
from training.tug import TUG, agent, write_agent

pytestmark = pytest.mark.usefixtures("all_allowed")

HOCKEY = find("hockey", options={"time_limit": 60})
SEAT = seat_of(*duel_of(HOCKEY).spaces)


def test_metrics_against_opponents():
    with closing(Evaluator(HOCKEY, "kernel", 6, seed=1, opponents=["weak", "strong"])) as evaluator:
        evaluation = evaluator.run(agent(seat=SEAT))
        again = evaluator.run(agent(seat=SEAT))
        other = evaluator.run(agent(seat=SEAT, seed=5))
    metrics = evaluation.metrics()
    parts = [
        f"eval/{who}/{what}" for who in ("weak", "strong") for what in ("won", "drawn", "lost", "won_low", "won_high")
    ]
    assert list(metrics) == [
        "eval/return", "eval/return_std", "eval/return_low", "eval/return_high", "eval/length", "eval/episodes",
        "eval/seconds", "eval/win_rate", *parts,
    ]  # fmt: skip
    for who in ("weak", "strong"):
        assert sum(metrics[f"eval/{who}/{what}"] for what in ("won", "drawn", "lost")) == pytest.approx(1.0)
        assert metrics[f"eval/{who}/won_low"] <= metrics[f"eval/{who}/won"] <= metrics[f"eval/{who}/won_high"]
    assert metrics["eval/episodes"] == 12
    assert metrics["eval/win_rate"] == (metrics["eval/weak/won"] + metrics["eval/strong/won"]) / 2
    assert evaluation.mean == pytest.approx(sum(evaluation.returns) / 6)  # of the games played from the first side
    assert again.returns == evaluation.returns != other.returns


def test_opponents_of_all_kinds(tmp_path):
    make_run(tmp_path, "hockey", "sac")
    place = write_agent(tmp_path, "def act(self, obs):\n    return np.zeros(4)")
    who = ["finished", place, "hockey", "none", "finished"]
    with closing(Evaluator(HOCKEY, "kernel", 2, 1, opponents=who, runs_dir=tmp_path)) as evaluator:
        metrics = evaluator.run(agent(seat=SEAT)).metrics()
    for name in ("finished", "agent.Agent", "hockey", "none", "finished-2"):
        assert f"eval/{name}/won" in metrics
    assert metrics["eval/episodes"] == 10


def test_it_stops_when_asked():
    with closing(Evaluator(HOCKEY, "kernel", 4, 1, opponents=["weak"])) as evaluator:
        assert evaluator.run(agent(seat=SEAT), stop=lambda: True) is None
        assert evaluator.run(agent(seat=SEAT)) is not None


def test_games_of_other_worlds_than_rookerys(tmp_path):
    place = write_agent(tmp_path, "def act(self, obs):\n    return [0.1]")
    for backend in ("serial", "process"):
        with closing(Evaluator(TUG, backend, 4, 1, opponents=[place])) as evaluator:
            assert evaluator.run(agent()).metrics()["eval/episodes"] == 4


def test_mistakes_are_found_before_anything_is_played(tmp_path):
    with pytest.raises(OptionError, match="no player 'stron'"):
        Evaluator(HOCKEY, "kernel", 4, 1, opponents=["stron"], runs_dir=tmp_path)
    with pytest.raises(WorldError, match="CartPole-v1 is not a two-player game"):
        Evaluator(find("CartPole-v1"), "kernel", 4, 1, opponents=["weak"])
    with pytest.raises(OptionError, match="tug has no script 'weak'"):
        Evaluator(TUG, "serial", 4, 1, opponents=["weak"])
