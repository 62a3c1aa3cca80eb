"""Runs whose length is in episodes."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.cli.main import main
from rookery.monitor.events import Event
from rookery.monitor.log_lines import LogLines
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.run.collector import Collector
from training.runs import differences, last_state, small


def by_episodes(learner: str, folder: Path, episodes: int, **options: Any) -> dict[str, Any]:
    config = small(learner, folder, episodes=episodes, **options)
    if "steps" not in options:
        del config["steps"]
    return config


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["kind"] == kind]


def test_steps_do_not_end_it_unless_they_are_given():
    """Neither their default nor those of a recipe."""
    assert resolve_run(rookery.config.build_config("CartPole-v1", episodes=7)).config.steps == NO_STEP_LIMIT
    assert resolve_run(rookery.config.build_config("CartPole-v1", episodes=7, steps=9)).config.steps == 9


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_it_has_as_many_episodes_as_were_asked_for(learner: str, tmp_path: Path) -> None:
    """With ten evaluations and checkpoints by default, and shares and schedules by episodes."""
    section = {"learning_rate": 3e-4, "learning_rate_schedule": "linear"}
    evaluation, checkpoints = {"episodes": 1}, {"keep": 20}
    options = {learner: section, "evaluation": evaluation, "checkpoints": checkpoints, "num_envs": 1}
    result = rookery.train(by_episodes(learner, tmp_path, 10, **options))
    assert result.episodes == 10 and result.reason == "finished"
    assert 7 <= len((result.path / "evaluations.jsonl").read_text().splitlines()) <= 11
    progress = [event for event in lines(result.path, "progress") if "share" in event][-1]
    assert progress["share"] == 1.0 and progress["episodes"] == 10
    assert progress["learning_rate"] < 0.6 * 3e-4
    assert lines(result.path, "start")[0]["episodes"] == 10


def test_steps_and_episodes_whichever_comes_first(tmp_path: Path) -> None:
    by_steps = rookery.train(by_episodes("ppo", tmp_path / "a", 10_000, steps=256))
    assert by_steps.total_steps == 256 and by_steps.episodes < 10_000
    few = rookery.train(by_episodes("ppo", tmp_path / "b", 5, steps=100_000))
    assert few.total_steps < 2_000 and few.episodes == 5
    assert "5 episodes or 100,000 steps, whichever comes first" in str(lines(few.path, "note"))


@pytest.mark.parametrize(("learner", "interrupted_at"), [("ppo", 204), ("dqn", 172)])
def test_resuming_is_exact(learner: str, interrupted_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the middle of a rollout, or between two evaluations: the same weights, steps and evaluations."""
    options = {learner: {"learning_rate_schedule": "linear"}, "backend": "serial", "evaluation": {"episodes": 1}}
    whole = rookery.train(by_episodes(learner, tmp_path / "whole", 16, **options))
    count = Collector._count

    def count_and_interrupt(self: Collector, steps: int) -> None:
        count(self, steps)
        if self.steps == interrupted_at:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Collector, "_count", count_and_interrupt)
        part = rookery.train(by_episodes(learner, tmp_path / "part", 16, **options))
    assert part.reason == "interrupted" and part.total_steps < whole.total_steps
    rest = rookery.resume(part.path)
    assert (rest.total_steps, rest.episodes, rest.evaluation) == (whole.total_steps, 16, whole.evaluation)
    assert not differences(last_state(whole.path), last_state(rest.path))
    assert [event["step"] for event in lines(whole.path, "evaluation")] == [
        event["step"] for event in lines(rest.path, "evaluation")
    ]


def test_more_episodes_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Of a run that has made all of its episodes; the summary names the command."""
    run = rookery.train(by_episodes("ppo", tmp_path, 20)).path
    assert f"rookery resume {run} --num-episodes 40" in capsys.readouterr().out
    assert main(["resume", str(run), "--num-episodes", "30", "--no-panel"]) == 0
    assert json.loads((run / "summary.json").read_text())["episodes"] == 30
    assert json.loads((run / "config.json").read_text())["monitor"]["panel"] is False


def test_what_a_line_says() -> None:
    """As older trainers wrote it."""
    stream = io.StringIO()
    log = LogLines(stream=stream)
    log.write(Event("start", 0, {"world": "a", "episodes": 1000}, 0.0))
    values = {"episodes": 10, "episode/return": 120.12, "episode/latest_return": 123.45, "episode/latest_length": 234.0}
    log.write(Event("progress", 2340, {**values, "steps_per_second": 80.0, "share": 0.01}, 40.0))
    assert "Episode 10/1000 | Reward 123.5 | Length 234 | Mean(100) 120.1 | 2,340 steps" in stream.getvalue()
