"""What the benchmarks of a cluster need: runs in processes of their own, and clusters of several nodes on this machine.

`python benchmarks/cluster_runs.py CONFIG` trains this configuration (JSON), and says after every rollout how far it is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

os.environ.setdefault("RAY_raylet_start_wait_time_s", "180")  # before Ray is imported: the machine may be busy
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
FOLDER = Path(__file__).parent
TOLD = "told"  # how a line begins in which the run says how far it is
QUIET = {"panel": False, "plot": False, "tensorboard": False}
SETTINGS: dict[str, Any] = {
    "learner": "ppo", "seed": 1, "device": "cpu", "steps": 10**9, "monitor": QUIET, "max_restarts": 100,
    "evaluation": {"every": 10**9, "episodes": 20}, "checkpoints": {"every": 10**9},
}  # fmt: skip
CARTPOLE: dict[str, Any] = {**SETTINGS, "world": "rookery/CartPole-v1"}
SLOW: dict[str, Any] = {
    **SETTINGS, "world": f"{FOLDER / 'engine_worlds.py'}:Slow", "num_envs": 8, "backend": "process", "workers": 2,
    "ppo": {"rollout_length": 128},
}  # fmt: skip


def on_ray(collectors: int | None = None, address: str | None = None) -> dict[str, Any]:
    """The part of a configuration that brings its envs to a cluster."""
    return {"cluster": {"kind": "ray", "nodes": collectors, "address": address}}


class Run:
    """A run in a process of its own. `told` grows with its rollouts: (moment by `time.monotonic`, steps so far)."""

    def __init__(self, config: dict[str, Any], runs: Path, name: str, command: list[str] | None = None) -> None:
        """`command` starts another program that tells as much, and gets the configuration as its last argument."""
        self.path, self.started = runs / name, time.monotonic()
        command = [sys.executable, str(FOLDER / "cluster_runs.py")] if command is None else command
        self._log = (runs / f"{name}.log").open("ab")
        self.process = subprocess.Popen(
            [*command, json.dumps({**config, "runs_dir": str(runs), "name": name})],
            stdout=subprocess.PIPE, stderr=self._log, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )  # fmt: skip
        self.told: list[tuple[float, int]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if line.startswith(TOLD) and line.endswith("\n"):  # the last one of a killed run may be cut off
                _, moment, steps = line.split()
                self.told.append((float(moment), int(steps)))

    def wait_rollouts(self, count: int, seconds: float = 240.0) -> None:
        """Until it has made so many more rollouts."""
        wanted, deadline = len(self.told) + count, time.monotonic() + seconds
        while len(self.told) < wanted:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the run {self.path} has ended, or hangs: {self.text()[-2000:]}")
            time.sleep(0.02)

    def speed(self, began: float, ended: float) -> float:
        """Steps per second of the whole rollouts between two moments."""
        inside = [each for each in self.told if began <= each[0] <= ended]
        if len(inside) < 2:
            return float("nan")
        (first, steps_before), (last, steps) = inside[0], inside[-1]
        return (steps - steps_before) / (last - first)

    def rate_for(self, seconds: float) -> float:
        """Let it continue for so many seconds, and at least three rollouts; returns its steps per second."""
        self.pause(False)
        self.wait_rollouts(1)  # it may have been stopped in the middle of one
        began, count = time.monotonic() - 0.02, len(self.told)
        time.sleep(seconds)
        self.wait_rollouts(max(0, count + 2 - len(self.told)))
        ended = time.monotonic()
        self.pause(True)
        return self.speed(began, ended)

    def cpu_seconds(self) -> tuple[float, float]:
        """So far: of its process and its workers, and of the processes of a cluster that it has started."""
        process = psutil.Process(self.process.pid)
        children = process.children(recursive=True)
        of_ray = [each for each in children if _is_of_ray(each)]
        own = [process, *(each for each in children if each not in of_ray)]
        return sum(map(_cpu_seconds, own)), sum(map(_cpu_seconds, of_ray))

    def pause(self, paused: bool) -> None:
        """Stop its process, or let it continue."""
        os.kill(self.process.pid, signal.SIGSTOP if paused else signal.SIGCONT)

    def text(self) -> str:
        """What it has printed as errors."""
        return Path(self._log.name).read_text(errors="replace")

    def notes(self) -> list[str]:
        """What the run has said."""
        lines = (self.path / "metrics.jsonl").read_text().splitlines()
        return [event["text"] for event in map(json.loads, lines) if event["kind"] == "note"]

    def losses(self) -> list[str]:
        """What it has said about collectors that were lost."""
        return [text for text in self.notes() if "was lost" in text]

    def wait_losses(self, count: int, seconds: float = 240.0) -> None:
        """Until it has named so many."""
        deadline = time.monotonic() + seconds
        while len(self.losses()) < count and time.monotonic() < deadline:
            time.sleep(0.1)

    def wait_joined(self, count: int, seconds: float = 120.0) -> None:
        """Until so many nodes that have joined have got envs."""
        deadline = time.monotonic() + seconds
        while sum("a node has joined" in text for text in self.notes()) < count and time.monotonic() < deadline:
            time.sleep(0.1)

    def summary(self) -> dict[str, Any]:
        """How it ended."""
        summary: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
        return summary

    def interrupt(self, seconds: float = 60.0) -> int:
        """End it as Ctrl-C does; returns its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(seconds)

    def collectors(self) -> list[psutil.Process]:
        """The processes of its collectors on a cluster that it has started, oldest first."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        found = [process for process in children if "CollectorActor" in _title(process)]
        return sorted(found, key=psutil.Process.create_time)

    def close(self) -> None:
        """Kill it, if it has not ended, and wait for its processes, which notice that by themselves."""
        with suppress(psutil.Error):
            family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            psutil.wait_procs(family, timeout=10)
        self.process.wait()
        self._reader.join()
        for file in (self.process.stdout, self._log):
            if file is not None:
                file.close()


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:2])  # user and system
    except psutil.Error:
        return 0.0


def _is_of_ray(process: psutil.Process) -> bool:
    """Whether it is a daemon of Ray, or a worker that waits for tasks."""
    title = _title(process)
    return "/ray/" in title or title.startswith("ray::")


def _title(process: psutil.Process) -> str:
    try:
        return "".join(process.cmdline())
    except psutil.Error:
        return ""


@contextmanager
def running(config: dict[str, Any], runs: Path, name: str, command: list[str] | None = None) -> Iterator[Run]:
    """A run, killed in the end if it has not ended."""
    run = Run(config, runs, name, command)
    try:
        yield run
    finally:
        run.close()


@contextmanager
def two_nodes(**settings: Any) -> Iterator[Any]:
    """A cluster of two nodes on this machine, with the health checks of rookery; `settings` are further ones."""
    from ray.cluster_utils import Cluster

    from rookery.cluster.ray_start import HEALTH

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": {**HEALTH, **settings}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.shutdown()


def train(config: dict[str, Any]) -> int:
    """Train, and tell."""
    import rookery

    class Told(rookery.Callback):
        def on_rollout(self, run: Any) -> None:
            print(TOLD, time.monotonic(), run.step, flush=True)

    folder = Path(config["runs_dir"]) / config["name"]
    if folder.exists():
        return rookery.resume(folder, trust=True, callbacks=[Told()]).exit_code
    return rookery.train(config, callbacks=[Told()]).exit_code


if __name__ == "__main__":
    sys.exit(train(json.loads(sys.argv[1])))
