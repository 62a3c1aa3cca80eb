"""What a search prints at its end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rookery.studies.search_screen import SearchScreen, print_result
from rookery.studies.study_result import BestTrial, StudyResult

BEST = BestTrial(7, {"ppo.clip": 0.2}, 490.0, (480.0, 500.0), 470.0, (460.0, 475.0), ("runs/trial-00007-verify-1000",))


def result(**changes):
    usual = {
        "study_name": "x", "path": Path("studies/x"), "storage": "study.db", "finished": 9, "running": 0, "failed": 1,
        "pruned": 0, "best": BEST, "verified": (BEST,), "front": (), "pruning": None, "seconds": 60.0,
        "reason": "finished",
    }  # fmt: skip
    return StudyResult(**{**usual, **changes})


def test_the_summary_shows_both_values_and_what_comes_next(capsys):
    print_result(result(), "rookery search c.toml")
    shown = capsys.readouterr().out
    assert "9 finished, 1 failed" in shown
    assert "470 [460, 475] on held-out seeds; 490 [480, 500] on tuning seeds" in shown
    for command in ("study x", "study x --export-config best.toml", "train best.toml", "deploy x --to"):
        assert f"rookery {command}" in shown


def test_without_a_verification_none_is_announced(capsys):
    """With search.verify = 0, or in a population, there will be none."""
    print_result(result(best=BestTrial(0, {}, 11.5, None), verified=()), "")
    shown = capsys.readouterr().out
    assert "best: trial 0: not verified with held-out seeds; 11.5 on tuning seeds" in shown
    assert "train best.toml" in shown and "deploy" not in shown


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reason": "interrupted"}, "nothing is lost"),
        ({"reason": "timeout", "best": None, "verified": ()}, "no trial has finished in this time"),
        ({"reason": "all 5 trials failed", "best": None, "verified": ()}, "all 5 trials failed"),
    ],
)
def test_a_search_that_is_not_complete_says_how_to_continue(changes, words, capsys):
    print_result(result(**changes), "rookery search c.toml")
    shown = capsys.readouterr().out
    assert words in shown and "rookery search c.toml" in shown


def test_pruning_says_what_it_saved_and_may_have_cost(capsys):
    found = {"pruned": 4, "steps_saved": 1000, "share_saved": 0.25, "ahead_of_best": 1}
    print_result(result(pruning=found), "")
    assert "stopped 4 trials and saved 25 % of the steps; 1 of them was not behind" in capsys.readouterr().out


def test_the_best_value_is_that_on_held_out_seeds():
    assert result().best_value == 470.0 and result().as_json()["best_params"] == {"ppo.clip": 0.2}


def test_what_two_workers_notice_is_said_once():
    out = io.StringIO()
    with SearchScreen(5, panel=False, stream=out) as screen:
        for part in ("verify-1000", "verify-1001"):
            screen.heard({"event": "verify", "trial": 3, "part": part}, None)
        for _ in range(2):
            screen.heard({"event": "verified", "trial": 3, "value": 470.0}, None)
    assert out.getvalue() == "verifying trial 3 on held-out seeds\ntrial 3 reached 470 on held-out seeds\n"
