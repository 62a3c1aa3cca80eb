"""The agents of finished runs, measured again."""

from __future__ import annotations

import pytest

from rookery.errors import OptionError, RunError
from rookery.training.evaluate_run import evaluate_run
from training.finished import STEP, make_run


def test_figures_of_a_run(tmp_path):
    make_run(tmp_path)
    figures = evaluate_run("finished", tmp_path, episodes=3)
    assert list(figures) == [
        "run", "step", "world", "episodes", "return_mean", "return_std", "return_min", "return_max", "length_mean",
        "seconds",
    ]  # fmt: skip
    assert (figures["run"], figures["step"], figures["world"]) == ("finished", STEP, "CartPole-v1")
    assert figures["episodes"] == 3
    assert figures["return_min"] <= figures["return_mean"] == figures["length_mean"] <= figures["return_max"]


def test_the_seed_decides(tmp_path):
    make_run(tmp_path)

    def returns(**wish):
        figures = evaluate_run("finished", tmp_path, episodes=4, **wish)
        return figures["return_mean"], figures["return_std"]

    assert returns() == returns()
    assert returns(seed=1) == returns(seed=1) != returns(seed=2)
    drawn = {"deterministic": False, "seed": 1}
    assert returns(**drawn) == returns(**drawn) != returns(seed=1)


def test_games_have_a_win_rate(tmp_path):
    make_run(tmp_path, "hockey", "sac", world_options={"time_limit": 10})
    figures = evaluate_run("finished", tmp_path, episodes=2)
    assert figures["win_rate"] == 0.0
    assert figures["length_mean"] == 10


def test_another_world_with_the_same_spaces(tmp_path):
    make_run(tmp_path)
    figures = evaluate_run("finished", tmp_path, episodes=2, world="CartPole-v0")
    assert figures["world"] == "CartPole-v0"
    other = evaluate_run("finished", tmp_path, episodes=2, world_options={"gravity": 1.0})
    own = evaluate_run("finished", tmp_path, episodes=2)
    assert other["world"] == own["world"] and other["length_mean"] != own["length_mean"]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (
            "Acrobot-v1",
            r"finished cannot play Acrobot-v1: its agent observes Box\(.*\(4,\), float32\), and that has Box",
        ),
        ("hockey", r"finished cannot play hockey: its agent observes"),
    ],
)
def test_a_world_with_other_spaces_is_refused(tmp_path, world, words):
    make_run(tmp_path)
    with pytest.raises(OptionError, match=words):
        evaluate_run("finished", tmp_path, world=world)


def test_other_actions_are_refused_too(tmp_path):
    make_run(tmp_path, "MountainCar-v0")
    with pytest.raises(OptionError, match=r"its agent acts in Discrete\(3\), and that has Box"):
        evaluate_run("finished", tmp_path, world="MountainCarContinuous-v0")


def test_mistakes(tmp_path):
    with pytest.raises(OptionError, match="episodes"):
        evaluate_run("finished", tmp_path, episodes=0)
    with pytest.raises(RunError, match="no run 'finished'"):
        evaluate_run("finished", tmp_path)
