"""The last word of a run."""

from __future__ import annotations

import io

import pytest

from monitor import telling
from rookery.monitor import run_summary


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_hold_every_figure_aligned() -> None:
    """Names to the left, figures in one column, the commands last."""
    stream = io.StringIO()
    run_summary.print_summary(telling.END, stream)
    assert stream.getvalue().splitlines() == [
        "CartPole-v1_ppo: finished",
        "  final step                 100,000",
        "  episodes                   812",
        "  time                       1 min 15 s",
        "  return, last 10 episodes   499.5",
        "  return, last 100 episodes  487.2",
        "  last evaluation            480",
        "  best evaluation            500",
        "  envs used                  8",
        "  steps/s in training        1,333",
        "  run                        runs/CartPole-v1_ppo",
        "  evaluate it                rookery eval CartPole-v1_ppo",
        "  watch it                   rookery watch CartPole-v1_ppo",
        "  train longer               rookery resume CartPole-v1_ppo --steps 200000",
    ]


def test_a_terminal_gets_the_same_as_a_table() -> None:
    screen = Screen()
    run_summary.print_summary(telling.END, screen)
    for name, text in run_summary.rows(telling.END) + run_summary.commands(telling.END):
        assert name in screen.getvalue() and text in screen.getvalue()


def test_what_is_not_known_is_left_out() -> None:
    """A run without evaluations does not talk of them."""
    names = [name for name, _ in run_summary.rows({**telling.END, "eval/return": None, "eval/best_return": None})]
    assert "last evaluation" not in names and "best evaluation" not in names


def test_the_time_names_what_the_speed_leaves_out() -> None:
    """A first run compiles for most of its time: that is not a sign of a slow machine."""
    compiled = {**telling.END, "start_seconds": 60.2, "evaluation_seconds": 4.0}
    assert dict(run_summary.rows(compiled))["time"] == (
        "1 min 15 s, of which 1 min 0 s to start (the first run on a machine compiles) and 4 s for evaluations"
    )
    later = {**telling.END, "start_seconds": 0.4, "evaluation_seconds": 0.3}
    assert dict(run_summary.rows(later))["time"] == "1 min 15 s"


def test_a_run_cut_short_is_resumed_first() -> None:
    assert run_summary.commands({"run": "a b", "reason": "interrupted"})[0] == ("resume it", "rookery resume 'a b'")
    assert run_summary.ended_early({"reason": "failed: disk"}) and not run_summary.ended_early(
        {"reason": "goal reached"}
    )


def test_only_commands_that_work_are_shown() -> None:
    """Without a checkpoint there is no agent, and what draws nothing cannot be watched."""
    failed = {"run": "walker", "reason": "failed: boom", "no_checkpoint": True}
    assert run_summary.commands(failed) == [("begin it again", "rookery resume walker")]
    blind = run_summary.commands({"run": "walker", "reason": "finished", "steps": 100, "no_picture": True})
    assert [what for what, _ in blind] == ["evaluate it", "train longer"]


def test_what_lets_a_run_go_on_is_more_than_it_has_made() -> None:
    end = {"run": "walker", "reason": "finished", "steps": 1024, "episodes": 241, "num_episodes": 5}
    assert run_summary.commands(end)[-1] == ("train longer", "rookery resume walker --num-episodes 482")
    assert run_summary.commands({**end, "num_episodes": 300})[-1][1] == "rookery resume walker --steps 2048"


@pytest.mark.parametrize(
    ("reason", "reached", "flags"),
    [
        ("goal reached", 475.0, "--set evaluation.stop_at=none"),
        ("finished", 480.0, "--set evaluation.stop_at=none --steps 2048"),
        ("finished", 300.0, "--steps 2048"),
    ],
)
def test_a_goal_that_was_reached_would_end_the_run_again(reason: str, reached: float, flags: str) -> None:
    end = {"run": "walker", "reason": reason, "steps": 1024, "stop_at": 475.0, "eval/return": reached}
    assert run_summary.commands(end)[-1][1] == f"rookery resume walker {flags}"


def test_square_brackets_are_no_markup() -> None:
    """A path may hold what rich would take for a colour."""
    screen = Screen()
    run_summary.print_summary({"run": "[red]x", "path": "runs/[red]x", "reason": "finished"}, screen)
    assert "runs/[red]x" in screen.getvalue() and "rookery eval '[red]x'" in screen.getvalue()


def test_a_failure_is_named_without_its_traceback() -> None:
    """That is shown where the error is."""
    assert (
        run_summary.title({"run": "walker", "reason": "failed: EnvError: boom\nTraceback"})
        == "walker: failed: EnvError: boom"
    )
