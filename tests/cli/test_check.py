"""`rookery check` reports whatever an env does to its process, and never ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rookery.cli.main import main

WORLD = """
import ctypes, os, sys, time
import gymnasium as gym
import numpy as np

class Sound(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(4)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps, self.time = self.steps + 1, self.time + 1
        if self.steps == 50:
            self.fault()
        return np.zeros(2, np.float32), 1.0, self.time == 30, False, {}

    def fault(self):
        pass
"""
KERNEL = """
import numpy as np
from gymnasium import spaces
from rookery import KernelWorld

class Late(KernelWorld):
    observation_space = spaces.Box(-5.0, 5.0, (1,), np.float32)
    action_space = spaces.Discrete(3)
    state = {"time": "i8"}
    parameters = {"last": 1_000_000_000}

    @staticmethod
    def reset(state):
        pass

    @staticmethod
    def step(state, action, params):
        state.time += 1
        if state.time == params.last:
            return np.inf, False
        return 1.0, state.time % 100 == 0

    @staticmethod
    def observe(state, out):
        out[0] = 1.0
"""


@pytest.fixture
def faulty(tmp_path: Path):
    """A function that writes an env whose 50th step does something, and returns its name."""

    def write(fault: str) -> str:
        path = tmp_path / "my_env.py"
        body = textwrap.indent(textwrap.dedent(fault).strip(), " " * 8)
        path.write_text(f"{WORLD}\nclass Faulty(Sound):\n    def fault(self):\n{body}\n")
        return f"{path}:Faulty"

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("os._exit(3)", "step() number 49 ended the process with exit status 3"),
        pytest.param("os._exit(0)", "step() number 49 ended the process with exit status 0", marks=pytest.mark.slow),
        ("ctypes.string_at(0)", "step() number 49 crashed: the process was ended by SIGSEGV (my_env.py:27)"),
        pytest.param(
            "os.kill(os.getpid(), 9)",
            "step() number 49 crashed: the process was ended by SIGKILL",
            marks=pytest.mark.slow,
        ),
        ("raise KeyboardInterrupt", "step() number 49 raised KeyboardInterrupt (my_env.py:27)"),
        pytest.param(
            "raise BaseException('odd')",
            "step() number 49 raised BaseException: odd (my_env.py:27)",
            marks=pytest.mark.slow,
        ),
        ("input('continue?')", "step() number 49 raised EOFError"),
        (
            "while True: time.sleep(0.01)",
            "step() number 49 did not end within 2 s (--timeout allows more) (my_env.py:27)",
        ),
        pytest.param(
            "while True: print('x' * 1000)", "step() number 49 did not end within 2 s", marks=pytest.mark.slow
        ),
    ],
)
def test_an_env_that_ends_or_stops_its_process_is_reported(fault, words, faulty, capsys):
    """With the call that did it, and status 1."""
    timeout = "2" if "while" in fault else "60"
    assert main(["check", faulty(fault), "--timeout", timeout]) == 1
    captured = capsys.readouterr()
    assert words in captured.out
    assert "Traceback" not in captured.err and len(captured.err) < 10_000


@pytest.mark.slow
@pytest.mark.parametrize("line", ["sys.exit('no licence')", "raise KeyboardInterrupt"])
def test_a_file_that_exits_is_reported(line, tmp_path, capsys):
    path = tmp_path / "my_env.py"
    path.write_text(f"import sys\n{line}\n")
    assert main(["check", f"{path}:MyEnv"]) == 1
    assert f"importing {path}:MyEnv raised" in capsys.readouterr().out


@pytest.mark.slow
def test_what_an_env_prints_is_cut_and_counted(faulty, capsys):
    """It goes to standard error, so that standard output contains the JSON alone."""
    assert main(["check", faulty("for k in range(3000): print(k, 'x' * 500)"), "--json"]) == 0
    captured = capsys.readouterr()
    assert "lines while it was checked" in "".join(json.loads(captured.out)["advice"])
    assert captured.err.startswith("0 xxx") and len(captured.err) < 10_000
    assert "more lines" in captured.err.splitlines()[-1]


@pytest.mark.slow
def test_a_kernel_world_is_measured_as_a_batch(tmp_path, capsys):
    path = tmp_path / "late.py"
    path.write_text(KERNEL)
    assert main(["check", f"{path}:Late"]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert "one env makes" in first
    assert "envs in a batch make" in second


@pytest.mark.slow
@pytest.mark.usefixtures("plain_python")
def test_the_step_of_a_kernel_worlds_bad_value_is_named(tmp_path, capsys):
    path = tmp_path / "late.py"
    path.write_text(KERNEL)
    assert main(["check", f"{path}:Late", "--set", "world_options.last=50"]) == 1
    assert "step() number 49: reward is inf" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("end", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_the_process_of_the_env_ends_with_the_command(end, faulty, tmp_path):
    """Also if the env hangs."""
    mark = tmp_path / "pid"
    world = faulty(f"open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    command = subprocess.Popen([sys.executable, "-m", "rookery", "check", world], stderr=subprocess.DEVNULL)
    pid = int(_within(60, lambda: mark.exists() and mark.read_text()))
    command.send_signal(end)
    command.wait(30)
    assert _within(30, lambda: not _runs(pid))


def _within(seconds: float, answer):
    end = time.monotonic() + seconds
    while not (found := answer()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").exists() else True
