"""A run whose envs fail goes on, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from cluster.in_process import InProcess, use
from rookery.engine.segment_stepping import Restarts
from rookery.engine.settings import Settings
from rookery.errors import BadValue
from rookery.monitor.run_summary import rows
from training import moody
from training.runs import notes, small

RESTART = {"max_restarts": 1000, "on_failure": "restart", "world": f"{moody.__file__}:Moody"}


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def check_told(path: Path, prefix: str = "") -> None:
    """The first restart is told in full, others where their number has doubled; the last count is in the summary."""
    said = [text for text in notes(path) if "restarted after" in text]
    first, second, *_ = said
    assert first.startswith(prefix) and "Moody: env " in first and "`RuntimeError: out of fuel`" in first
    assert "truncated" in first and "on_failure" in first
    assert prefix or second.endswith("; 2 restarts so far")
    summary = json.loads((path / "summary.json").read_text())
    total = summary["restarts"]
    assert total > 20 and len(said) <= 3 * total.bit_length()
    assert ("restarts after failures", str(total)) in rows(summary)
    progress = [event for event in events(path) if event["kind"] == "progress"]
    assert max(event.get("restarts", 0) for event in progress) == total
    assert not any("info/restarted" in event or "eval/info/restarted" in event for event in events(path))


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_restarts_are_told_and_counted(backend: str, tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path, backend=backend, workers=2, steps=1024, **RESTART))
    check_told(result.path)


def test_the_option_that_allowed_it_is_named() -> None:
    """Bad values have one of their own, unless they are allowed."""
    restarts = Restarts(Settings(1, bad_values="restart", on_failure="raise"))
    assert restarts.option_for(BadValue("nan")) == "bad_values" and restarts.allowed_after(BadValue("nan"))
    assert restarts.option_for(RuntimeError()) == "on_failure" and not restarts.allowed_after(RuntimeError())
    allowing = Restarts(Settings(1, bad_values="allow", on_failure="restart"))
    assert allowing.option_for(BadValue("nan")) == "on_failure" and allowing.allowed_after(BadValue("nan"))


def test_the_count_goes_on_in_a_resumed_run(tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path, backend="serial", steps=512, **RESTART))
    before = json.loads((result.path / "summary.json").read_text())["restarts"]
    rookery.resume(result.path, steps=1024)
    assert json.loads((result.path / "summary.json").read_text())["restarts"] > before + 5


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_collectors_tell_of_theirs(learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds: those that the learner waits for, and those that go on."""
    use(InProcess(), monkeypatch)
    cluster = {"kind": "ray", "nodes": 2}
    options = small(learner, tmp_path, backend="serial", steps=1024, cluster=cluster, **RESTART)
    check_told(rookery.train(options).path, "collector ")


@pytest.mark.slow
def test_several_processes_count_theirs_together(tmp_path: Path) -> None:
    """Rank 0 tells of its own as any run does, and once of those of the others."""
    options = small("ppo", tmp_path, backend="serial", steps=512, device="cpu", devices=2, **RESTART)
    path = rookery.train(options).path
    rows = [json.loads(line) for line in (path / "episodes.jsonl").read_text().splitlines()]
    failed = [row["env"] for row in rows if row["return"] < moody.END]
    total = json.loads((path / "summary.json").read_text())["restarts"]
    assert min(failed) < 2 <= max(failed) and total >= len(failed) > 10
    assert len([text for text in notes(path) if text.startswith("envs of another process")]) == 1


def test_a_run_without_failures_says_nothing(tmp_path: Path) -> None:
    world = f"{moody.__file__}:Steady"
    result = rookery.train(small("ppo", tmp_path, backend="serial", steps=256, world=world))
    assert not [text for text in notes(result.path) if "restarted" in text]
    assert "restarts" not in json.loads((result.path / "summary.json").read_text())
