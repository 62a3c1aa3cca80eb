"""All checks, one after another, each with a line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil

from rookery.console import printable
from rookery.engine import loops
from rookery.engine.make_vec import make_vec
from rookery.engine.workers.forkserver import SERVERS
from rookery.training import check_installed
from rookery.training.commands import start_command
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir

OK, FAILED, SKIPPED = "OK", "failed", "skipped"


class CheckFailed(Exception):
    """Something is not as it should be; the message says what."""


class NotChecked(Exception):
    """The check is not possible here; the message says why."""


@dataclass(frozen=True)
class CheckOutcome:
    subject: str
    state: str  # OK, FAILED or SKIPPED
    text: str
    seconds: float


Check = Callable[[], str]


@dataclass(frozen=True)
class SelftestReport:
    """The results of all checks, and the folder of the runs, which is kept if a check has failed."""

    outcomes: list[CheckOutcome]
    kept: Path | None

    @property
    def ok(self) -> bool:
        """Whether no check has failed."""
        return all(outcome.state != FAILED for outcome in self.outcomes)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        checks = [asdict(outcome) for outcome in self.outcomes]
        return {"ok": self.ok, "checks": checks, "kept": None if self.kept is None else str(self.kept)}


def selftest(tell: Callable[[CheckOutcome], None] = lambda outcome: None) -> SelftestReport:
    """Train, kill, resume and compare, to see that rookery works on this machine; takes about a minute. Each result is
    handed to `tell` at once."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-selftest-"))
    outcomes: list[CheckOutcome] = []
    try:
        for subject, check in _checks(RunChecks(folder)).items():
            outcomes.append(_outcome(subject, check))
            tell(outcomes[-1])
    finally:
        failed = any(outcome.state == FAILED for outcome in outcomes)
        if not failed:
            shutil.rmtree(folder, ignore_errors=True)
    return SelftestReport(outcomes, folder if failed else None)


def _checks(runs: RunChecks) -> dict[str, Check]:
    return {
        "the engine's compiled loops": check_loops,
        "worker processes": check_workers,
        "packages for training": _check_packages,
        "a compiled world": check_kernel,
        "training": runs.check_training,
        "a killed worker": runs.check_killed_worker,
        "a killed run": runs.check_killed_run,
        "resuming it": runs.check_resume,
        "the GPU": runs.check_gpu,
    }


def _check_packages() -> str:
    check_installed()
    return "torch and Numba are installed"


def _outcome(subject: str, check: Check) -> CheckOutcome:
    started = time.perf_counter()
    try:
        state, text = OK, check()
    except NotChecked as reason:
        state, text = SKIPPED, str(reason)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        state, text = FAILED, f"{printable(error) or type(error).__name__}"
    return CheckOutcome(subject, state, text, time.perf_counter() - started)


NUM_ENVS, STEPS = 4, 500
PLAIN = "from rookery.training.selftest import trajectory; print(trajectory('serial'))"
SECONDS = 120


def check_loops() -> str:
    """The engine's C loops step as the same loops in Python do."""
    if not loops.COMPILED:
        why = "ROOKERY_PLAIN is set" if loops.compiled() else "they were not compiled: rookery doctor says why"
        raise NotChecked(f"{why}; the engine works, but short steps are 10 % slower")
    with start_command(code=PLAIN, variables={"ROOKERY_PLAIN": "1"}, stdout=-1, stderr=-1) as process:
        out, err = process.communicate(timeout=SECONDS)
    if process.returncode:
        raise CheckFailed(err.decode(errors="replace").strip()[-500:])
    _equal(trajectory("serial"), out.decode().strip(), "the compiled loops and those in Python")
    return f"{STEPS} steps of {NUM_ENVS} envs are the same, bit for bit"


def check_workers() -> str:
    """Worker processes step as one process does, and leave neither processes nor shared memory."""
    before = _children()
    _equal(trajectory("process"), trajectory("serial"), "worker processes and one process")
    left = _children() - before
    if left:
        raise CheckFailed(f"these processes remain after close(): {sorted(left)}")
    if _shared_blocks():
        raise CheckFailed("shared memory remains after close()")
    return "the same numbers as in one process, bit for bit; processes and shared memory are gone after close()"


def check_kernel() -> str:
    """A compiled world steps as its functions in plain Python do."""
    from rookery.kernel.kernel_env import KernelEnv
    from rookery.worlds.classic import CartPole

    compiled, plain = (KernelEnv(CartPole, plain=plain) for plain in (False, True))
    rng = np.random.default_rng(1)
    over = True
    for step in range(STEPS):
        if over:
            for env in (compiled, plain):
                env.reset(seed=step)
        action = int(rng.integers(2))
        (one, *others), (two, *theirs) = (env.step(action) for env in (compiled, plain))
        if one.tobytes() != two.tobytes() or others[:3] != theirs[:3]:
            raise CheckFailed(f"they differ at step {step}: {one} and {two}")
        over = bool(others[1] or others[2])
    return f"{STEPS} steps are the same, bit for bit"


def trajectory(backend: str) -> str:
    """A hash of everything that some steps return."""
    envs = make_vec(_cartpole, NUM_ENVS, backend, 2 if backend == "process" else None)
    try:
        digest = hashlib.sha256(envs.reset(seed=7)[0].tobytes())
        rng = np.random.default_rng(7)
        for _ in range(STEPS):
            for array in envs.step(rng.integers(2, size=NUM_ENVS))[:4]:
                digest.update(np.ascontiguousarray(array).tobytes())
    finally:
        envs.close()
    return digest.hexdigest()


def _cartpole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


def _equal(one: str, other: str, what: str) -> None:
    if one != other:
        raise CheckFailed(f"{what} give different numbers")


def _children() -> set[int]:
    """All but fork servers, which stay for the next engine."""
    return {child.pid for child in psutil.Process().children(recursive=True)} - {server.pid for server in SERVERS}


def _shared_blocks() -> list[str]:
    """The engine's shared memory that this process still holds; Linux only."""
    if sys.platform != "linux":
        return []
    files = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return [name for name in files if name.startswith("/memfd:rookery")]


RUN_STEPS, KILL_AT = 8_192, 2_048
CONFIG: dict[str, Any] = {
    "world": "CartPole-v1", "compiled": False, "backend": "process", "workers": 2, "num_envs": 4, "learner": "ppo",
    "device": "cpu", "steps": RUN_STEPS, "seed": 1, "ppo": {"rollout_length": 64, "epochs": 2, "threads": 1},
    "evaluation": {"episodes": 1, "every": RUN_STEPS}, "checkpoints": {"every": 512},
    "monitor": {"panel": False, "plot": False, "tensorboard": False},
}  # fmt: skip
RUN_SECONDS = 180  # that a run may take on a slow machine
GONE_SECONDS = 10


class RunChecks:
    """Runs of one small configuration in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._pids = folder, list[int]()

    def check_training(self) -> str:
        """A run in worker processes, to its end."""
        self._wait(self._start("unbroken"))
        summary = self._run("unbroken").read_summary() or {}
        if summary.get("steps") != RUN_STEPS or summary.get("reason") != "finished":
            raise CheckFailed(f"the run ended at step {summary.get('steps')}: {summary.get('reason')}")
        return f"PPO made {RUN_STEPS:,} steps; its last evaluation is {summary['eval/return']:.0f}"

    def check_killed_worker(self) -> str:
        """A run continues when one of its workers is killed."""
        process = self._start("worker-killed")
        self._until_checkpoint(process, "worker-killed", 512)
        children = psutil.Process(process.pid).children()
        workers = [worker for child in children for worker in child.children()] or children  # of a fork server, or none
        if not workers:
            raise CheckFailed("the run has no worker process")
        os.kill(workers[0].pid, signal.SIGKILL)
        self._wait(process)
        return f"SIGKILL to worker {workers[0].pid}; its envs were restarted, and the run made its {RUN_STEPS:,} steps"

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
        return (
            f"from step {step:,} to {RUN_STEPS:,}; networks, optimiser and random streams are those of an unbroken run"
        )

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
            status = process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"the run has not ended after {RUN_SECONDS} s; {self._last_lines()}") from None
        finally:
            _kill(process)
        if status:
            raise CheckFailed(f"exit status {status}: {self._last_lines()}")

    def _until_checkpoint(self, process: subprocess.Popen[bytes], name: str, step: int) -> None:
        """Wait for a checkpoint of this step or a later one."""
        try:
            _until(lambda: self._step(name) >= step or process.poll() is not None, RUN_SECONDS, self._last_lines)
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
