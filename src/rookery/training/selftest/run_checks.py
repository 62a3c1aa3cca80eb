"""Checks of whole runs: trained by the command, killed, resumed, and compared with a run that was left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from rookery.training.commands import start_command
from rookery.training.selftest.outcome import CheckFailed, NotChecked
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir

STEPS, KILL_AT = 8_192, 2_048
CONFIG: dict[str, Any] = {
    "world": "CartPole-v1", "twin": False, "backend": "process", "workers": 2, "num_envs": 4, "learner": "ppo",
    "device": "cpu", "steps": STEPS, "seed": 1, "ppo": {"rollout_length": 64, "epochs": 2, "threads": 1},
    "evaluation": {"episodes": 1, "every": STEPS}, "checkpoints": {"every": 512},
    "monitor": {"panel": False, "plot": False, "tensorboard": False},
}  # fmt: skip
SECONDS = 180  # that a run may take on a slow machine
GONE_SECONDS = 10


class RunChecks:
    """Runs of one small configuration in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._pids = folder, list[int]()

    def check_training(self) -> str:
        """A run in worker processes, to its end."""
        self._wait(self._start("unbroken"))
        summary = self._run("unbroken").read_summary() or {}
        if summary.get("steps") != STEPS or summary.get("reason") != "finished":
            raise CheckFailed(f"the run ended at step {summary.get('steps')}: {summary.get('reason')}")
        return f"PPO made {STEPS:,} steps; its last evaluation is {summary['eval/return']:.0f}"

    def check_killed_worker(self) -> str:
        """A run continues when one of its workers is killed."""
        process = self._start("worker-killed")
        self._until_checkpoint(process, "worker-killed", 512)
        workers = [child for child in psutil.Process(process.pid).children(recursive=True) if not child.children()]
        if not workers:
            raise CheckFailed("the run has no worker process")
        os.kill(workers[0].pid, signal.SIGKILL)
        self._wait(process)
        return f"SIGKILL to worker {workers[0].pid}; its envs were restarted, and the run made its {STEPS:,} steps"

    def check_killed_run(self) -> str:
        """Nothing remains of a run that is killed, except its folder."""
        process = self._start("killed")
        self._until_checkpoint(process, "killed", KILL_AT)
        self._pids = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        _until(lambda: not _alive(self._pids), GONE_SECONDS, lambda: f"still running: {_alive(self._pids)}")
        return f"SIGKILL at step {self._step('killed'):,}; all {len(self._pids)} processes are gone"

    def check_resume(self) -> str:
        """The killed run, resumed, ends with the same numbers as the run that was left alone."""
        if not self._pids:
            raise NotChecked("no run was killed")
        step = self._step("killed")
        self._wait(self._command("resume", str(self._run("killed").path)))
        different = differences(self._state("killed"), self._state("unbroken"))
        if different:
            raise CheckFailed(f"different from the unbroken run: {', '.join(different[:5])}")
        return f"from step {step:,} to {STEPS:,}; networks, optimiser and random streams are those of an unbroken run"

    def check_gpu(self) -> str:
        """A short run on the GPU, if torch finds one."""
        import torch

        if not torch.cuda.is_available():
            raise NotChecked("torch finds no CUDA GPU")
        self._wait(self._start("gpu", device="cuda", steps=1024))
        return f"PPO made 1,024 steps on {torch.cuda.get_device_name()}"

    def _start(self, name: str, **changes: Any) -> subprocess.Popen[bytes]:
        file = self._folder / f"{name}.json"
        file.write_text(json.dumps({**CONFIG, **changes, "name": name, "runs_dir": str(self._folder)}))
        return self._command("train", str(file))

    def _command(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self._log, "wb") as log:
            return start_command(*words, stdout=subprocess.DEVNULL, stderr=log)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"the run has not ended after {SECONDS} s; {self._last_lines()}") from None
        finally:
            _kill(process)
        if status:
            raise CheckFailed(f"exit status {status}: {self._last_lines()}")

    def _until_checkpoint(self, process: subprocess.Popen[bytes], name: str, step: int) -> None:
        """Wait for a checkpoint of this step or a later one."""
        try:
            _until(lambda: self._step(name) >= step or process.poll() is not None, SECONDS, self._last_lines)
            if process.poll() is not None:
                raise CheckFailed(f"the run ended before it could be killed: {self._last_lines()}")
        except BaseException:
            _kill(process)
            raise

    def _step(self, name: str) -> int:
        """The step of the latest checkpoint; 0 if there is none."""
        folders = (self._folder / name / "checkpoints").glob("step-*")
        return max((int(path.name.split("-")[1]) for path in folders), default=0)

    def _state(self, name: str) -> dict[str, Any]:
        step, tree = Checkpoints(self._run(name).checkpoints).load_latest()
        return {"step": step, "policy": tree["agent"]["policy"], "learner": tree["learner"]}

    def _run(self, name: str) -> RunDir:
        return RunDir(self._folder / name)

    @property
    def _log(self) -> Path:
        return self._folder / "output.log"

    def _last_lines(self) -> str:
        return " | ".join(self._log.read_text(errors="replace").strip().splitlines()[-3:]) or "it printed nothing"


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two trees are not the same, bit for bit."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [found for key in one for found in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return [] if one.dtype == other.dtype and one.tobytes() == other.tobytes() else [path]
    return [] if one == other else [path]


def _until(done: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise CheckFailed(f"after {seconds:.0f} s: {why()}")
        time.sleep(0.005)


def _alive(pids: list[int]) -> list[int]:
    running = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.append(pid)
        except psutil.NoSuchProcess:
            pass
    return running


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that is still running; its workers end with it."""
    if process.poll() is None:
        process.kill()
        process.wait()
