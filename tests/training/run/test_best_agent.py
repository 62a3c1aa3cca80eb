"""The agent of a run is the best one by evaluation, wherever it is taken; and a run that has made its last rollout is
finished, even if a signal comes then."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.monitor import run_summary
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.evaluation.trained_run import open_run
from rookery.training.export.onnx_file import export_standalone
from rookery.training.league.tournament import source_of
from rookery.training.run.callbacks import Callback
from rookery.training.show.watch import show_setup
from rookery.training.storage.load_agent import choice_text
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord
from rookery.training.storage.runs_table import row
from training.runs import small

pytestmark = pytest.mark.usefixtures("all_allowed")
EVERY = 256


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the returns of all evaluations that follow, one after another."""

    def set_returns(*returns: list[float]) -> None:
        left, run = iter(returns), Evaluator.run

        def changed(self: Evaluator, *args: Any, **options: Any) -> Any:
            made = run(self, *args, **options)
            return None if made is None else replace(made, returns=next(left))

        monkeypatch.setattr(Evaluator, "run", changed)

    return set_returns


def train(folder: Path, *callbacks: Callback) -> Any:
    every = {"evaluation": {"episodes": 2, "every": EVERY, "max_episodes": 2}, "checkpoints": {"every": EVERY}}
    return rookery.train(small("ppo", folder, steps=2 * EVERY, name="run", **every), callbacks=list(callbacks))


def summary_lines(result: Any) -> str:
    return "\n".join(run_summary.lines(RunDir(result.path).read_summary() or {}))


def test_every_door_leads_to_the_best_agent(tmp_path: Path, evaluated: Any, said: Any) -> None:
    """And one line tells which it is; the last one is had by asking for it."""
    evaluated([94.0, 94.2], [-59.0, -59.2])
    result = train(tmp_path)
    assert result.agent.steps == EVERY and result.evaluation == pytest.approx(-59.1)
    told = "the last evaluation is worse than the best (-59.1 against 94.1): eval, watch, export and result.agent take"
    assert told in summary_lines(result) and "94.1 at 256\n" in summary_lines(result)
    before = said()
    taken = rookery.load(result.path)
    line = "the best agent, from step 256: 94.1 (--last or best=False takes the last, from step 512: -59.1)"
    assert not [text for text in before if "best at" in text] and said()[len(before) :] == [line]
    last = rookery.load(result.path, best=False)
    assert (taken.steps, last.steps) == (EVERY, 2 * EVERY)
    states = [agent.policy.state_dict() for agent in (result.agent, taken, last)]
    assert all(np.array_equal(states[0][key], states[1][key]) for key in states[0])
    assert any(not np.array_equal(states[0][key], states[2][key]) for key in states[0])
    assert open_run("run", tmp_path).step == EVERY and open_run("run", tmp_path, best=False).step == 2 * EVERY
    assert f"'step': {EVERY}" in export_standalone("run", tmp_path, tmp_path / "a.py").read_text().replace('"', "'")
    assert source_of("run", tmp_path).source == f"checkpoints/step-{EVERY:012d}"
    assert said().count(line) == 1  # once in a process


def test_eval_takes_the_best(tmp_path: Path, evaluated: Any) -> None:
    evaluated([94.0, 94.2], [-59.0, -59.2], [1.0], [1.0])
    train(tmp_path)
    steps = [evaluate("run", tmp_path, 1, **options)["step"] for options in ({}, {"best": False})]
    assert steps == [EVERY, 2 * EVERY]


def test_a_run_that_still_trains_is_watched_at_its_newest_agent(
    tmp_path: Path, evaluated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated([94.0, 94.2], [-59.0, -59.2])
    train(tmp_path)

    def shown(best: bool | None) -> int:
        trained = show_setup("run", tmp_path, best, None, trust=True)[1]
        assert trained is not None
        return trained.step

    assert [shown(best) for best in (None, True, False)] == [EVERY, EVERY, 2 * EVERY]
    monkeypatch.setattr(RunRecord, "state", lambda self: "running")
    assert [shown(best) for best in (None, True, False)] == [2 * EVERY, EVERY, 2 * EVERY]


def test_a_last_evaluation_above_the_best_is_explained(
    tmp_path: Path, evaluated: Any, said: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not better by more than noise, so that the best stays: a larger number beside it is not a mistake."""
    evaluated([-100.0, -54.8], [-53.4, -98.0])
    result = train(tmp_path)
    assert result.agent.steps == EVERY
    assert "-77.4 at 256; the last is higher, but within noise" in summary_lines(result)
    assert "worse" not in summary_lines(result)
    rookery.load(result.path)
    assert "takes the last, from step 512: -75.7, higher, but within noise)" in said()[-1]
    rookery.runs(runs_dir=result.path.parent).print()
    assert "higher, but within noise" in capsys.readouterr().out


def test_nothing_is_told_where_best_and_last_are_the_same(
    tmp_path: Path, evaluated: Any, said: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated([1.0, 2.0], [8.0, 9.0])
    result = train(tmp_path)
    assert result.agent.steps == rookery.load(result.path).steps == 2 * EVERY
    assert not [text for text in said() if "best at" in text]
    assert "warning" not in summary_lines(result)
    rookery.runs(runs_dir=result.path.parent).print()
    assert "noise" not in capsys.readouterr().out


def test_the_last_of_an_interrupted_run_was_not_evaluated() -> None:
    assert "the last, from step 9: not evaluated)" in choice_text(5, 1.0, 9, None)


def send_signal() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class SignalAtEnd(Callback):
    """Sends a signal when the last rollout is complete."""

    def on_rollout(self, run: Any) -> None:
        if run.step >= 2 * EVERY:
            send_signal()


@pytest.mark.parametrize("during", ["rollout", "evaluation"])
def test_a_signal_at_the_end_interrupts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, during: str) -> None:
    """The last evaluation is made, so that the run counts as any other, with the same numbers."""
    other = train(tmp_path / "other")
    if during == "evaluation":
        run, calls = Evaluator.run, iter(range(9))

        def signalled(self: Evaluator, *args: Any, **options: Any) -> Any:
            if next(calls) == 1:  # that of the end
                send_signal()
            return run(self, *args, **options)

        monkeypatch.setattr(Evaluator, "run", signalled)
    result = train(tmp_path, *([SignalAtEnd()] if during == "rollout" else []))
    assert (result.reason, result.exit_code) == ("finished", 0)
    assert row(RunDir(result.path))["state"] == "finished"
    assert (result.evaluation, result.best_evaluation) == (other.evaluation, other.best_evaluation)
    assert result.agent.steps == other.agent.steps


class Signalling(gym.Env):
    """Sends a signal at one of its steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        Signalling.steps += 1
        if Signalling.steps == 110:
            send_signal()
        return np.zeros(1, np.float32), 0.0, False, True, {}


def test_a_last_rollout_that_is_not_complete_is_interrupted(tmp_path: Path) -> None:
    """Of 128 steps it made 110 or a few more: enough steps for the run, but nothing was learned from them."""
    config = small("ppo", tmp_path, steps=100, num_envs=2, backend="serial", ppo={"rollout_length": 64})
    config.pop("world")
    result = rookery.train(Signalling, **config)
    assert 110 <= result.total_steps < 128 and (result.reason, result.exit_code) == ("interrupted", 130)
