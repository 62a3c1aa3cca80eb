"""What the command line says while something takes its time, and about places that cannot be used."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery import console
from rookery.cli.main import main
from rookery.console import meanwhile, say, waiting

ENV = """
import gymnasium as gym
import numpy as np


class Needy(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, size):
        self.size = size

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, bool(self.np_random.integers(self.size) == 0), False, {}
"""
SHORT = ["--steps", "64", "--num-envs", "2", "--set", "ppo.rollout_length=16", "--eval-episodes", "1"]


@pytest.fixture
def env(tmp_path: Path) -> str:
    path = tmp_path / "мой env.py"
    path.write_text(ENV, encoding="utf-8")
    return f"{path}:Needy"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_being_done_is_shown_on_a_terminal_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, shown in ((Terminal(), "loading ...\r\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        with meanwhile("loading"):
            pass
        assert stream.getvalue() == shown


def test_it_makes_way_for_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with meanwhile("measuring"):
        say("found")
        assert stream.getvalue().startswith("measuring ...\r\x1b[K")
    assert stream.getvalue().count("\x1b[K") == 1


def test_what_takes_long_counts_its_seconds_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back after a line was said, and nothing is left of it in the end."""
    monkeypatch.setattr(console, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with waiting("starting 8 envs"):
        wait_for(lambda: "starting 8 envs ... 0 s" in stream.getvalue())
        say("found")
        length = len(stream.getvalue())
        wait_for(lambda: "starting 8 envs ..." in stream.getvalue()[length:])
    assert stream.getvalue().endswith("\r\x1b[K")
    assert not any(thread.name == "rookery waiting" for thread in threading.enumerate())


def test_what_takes_long_prints_a_line_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines become rarer; what is over soon prints none."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    lines: list[str] = []
    monkeypatch.setattr(console, "say", lines.append)
    with waiting("starting 8 envs"):
        pass
    assert not lines
    monkeypatch.setattr(console, "LONG_SECONDS", 0.01)
    with waiting("starting 8 envs"):
        wait_for(lambda: len(lines) == 2)
    assert lines[0] == "starting 8 envs ... 0 s so far"


def test_a_silent_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "TICK_SECONDS", 0.001)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with console.silent(), waiting("starting 8 envs"):
        time.sleep(0.02)
    assert not stream.getvalue()


def test_an_error_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with pytest.raises(ValueError, match="broken"), waiting("starting 8 envs"):
        raise ValueError("broken")
    assert stream.getvalue() == "starting 8 envs ...\r\x1b[K"


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


@pytest.mark.slow
def test_a_slow_check_says_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    assert main(["check", "CartPole-v1", "--steps", "20"]) == 0
    assert stream.getvalue().startswith("checking CartPole-v1: 20 steps")


def test_the_panel_says_what_the_first_steps_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rookery.training.run.outputs import RunOutputs

    told: list[tuple[str, str]] = []
    tell = RunOutputs.event

    def listen(outputs: RunOutputs, kind: str, *step: int, **values: object) -> None:
        told.append((kind, str(values.get("text"))))
        tell(outputs, kind, *step, **values)

    monkeypatch.setattr(RunOutputs, "event", listen)
    assert main(["train", "CartPole-v1", *SHORT, "--runs-dir", str(tmp_path)]) == 0
    doing = next(text for kind, text in told if kind == "doing")
    assert doing == "making the first steps (a machine's first run compiles)"


@pytest.mark.slow
def test_a_world_may_be_in_a_file_of_any_name(env: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """The run gets a name that it can have."""
    assert main(["train", env, *SHORT, "--set", "world_options.size=5", "--runs-dir", str(tmp_path / "runs")]) == 0
    assert [run.name for run in (tmp_path / "runs").iterdir()] == ["env-Needy-ppo-s0_vec2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [([], "missing 1 required positional argument: 'size'; its options are given as world_options"),
     (["world_options.size=5", "world_options.colour=1"], "has no option 'colour' (it has size)")],
)  # fmt: skip
def test_options_that_a_world_does_not_take_are_one_line(
    options: list[str], message: str, env: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = [word for option in options for word in ("--set", option)]
    assert main(["train", env, *SHORT, *words, "--runs-dir", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("flag", ["--runs-dir", "--checkpoint-dir"])
def test_a_file_is_no_folder_for_runs(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Which is told before anything is trained."""
    (tmp_path / "file").write_text("")
    places = {"--runs-dir": tmp_path / "runs", flag: tmp_path / "file"}
    words = [str(word) for place in places.items() for word in place]
    assert main(["train", "CartPole-v1", "--steps", "1024", *words]) == 2
    assert "file cannot be the folder for runs or checkpoints: it is a file" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("flag", "who", "message"),
    [("--opponents", "self,nobody", "there is no player 'nobody': give none, weak or strong"),
     ("--opponents", "agents.py:Agent", "agents.py:Agent': there is no file"),
     ("--eval-opponents", "nobody", "there is no player 'nobody'")],
)  # fmt: skip
def test_an_opponent_that_is_not_there_leaves_no_run(
    flag: str, who: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """It is looked for before the game is compiled."""
    monkeypatch.setattr("rookery.training.run.open_run.open_envs", lambda *_: pytest.fail("too late"))
    assert main(["train", "hockey", flag, who, "--runs-dir", str(tmp_path / "runs")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_file_that_is_no_configuration_is_named_once(capsys: pytest.CaptureFixture) -> None:
    assert main(["convert", __file__]) == 2
    assert capsys.readouterr().err.startswith(f"rookery: {__file__}: cannot be read as a configuration")
