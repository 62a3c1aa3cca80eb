"""What the dashboard costs a training run: PPO on the compiled CartPole, while somebody reads the run's stream.

One run trains all the time. The dashboard is stopped (SIGSTOP) and continued in turns, so that neighbouring slices of
time differ in it alone. When it is continued it also reads what was written in the meantime, so that its cost is rather
too high. The figure is the median of the ratios of neighbouring slices, with an interval that holds the true median in
95 of 100 measurements. Less noisy is the processor time of the server, as a share of the time of one core.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from cost import Cost, median_interval
from dashboard_servers import Served, dashboard
from engine_rows import Row

SLICE_SECONDS = 1.5
WARM_SECONDS = 8.0  # until everything is compiled and PPO trains at its speed
MOST_PERCENT = 1.0
TOLD = "told"  # how a line begins in which the run says how far it is


class Training:
    """A run in a process of its own, which tells how far it is after every rollout."""

    def __init__(self, runs: Path) -> None:
        command = [sys.executable, __file__, str(runs)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.told: list[tuple[float, int]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            if line.startswith(TOLD):
                _, moment, steps = line.split()
                self.told.append((float(moment), int(steps)))

    def wait(self) -> None:
        """Until it has begun."""
        while not self.told:
            if self._process.poll() is not None:
                raise SystemExit("the training run has ended")
            time.sleep(0.2)

    def speed(self, began: float, ended: float) -> float:
        """Steps per second between two moments."""
        moments, steps = np.array(self.told).T
        first, last = np.interp([began, ended], moments, steps)
        return float((last - first) / (ended - began))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


def train(runs: str) -> None:
    """Train until somebody ends it."""
    import rookery

    class Told(rookery.Callback):
        def on_rollout(self, run: Any) -> None:
            print(TOLD, time.perf_counter(), run.step, flush=True)

    rookery.train(
        {
            "world": "CartPole-v1", "learner": "ppo", "steps": 10**9, "seed": 1, "runs_dir": runs, "name": "run",
            "device": "cpu", "evaluation": {"every": 10**9, "episodes": 1}, "checkpoints": {"every": 10**9},
            "monitor": {"panel": False, "plot": False},
        },
        callbacks=[Told()],
    )  # fmt: skip


@contextmanager
def reader(served: Served) -> Iterator[None]:
    """Somebody who reads the stream of the run."""
    answer = urllib.request.urlopen(f"{served.url}/api/runs/trained/run/stream")

    def read() -> None:
        while answer.readline():
            pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield


def cost_rows(folder: Path, turns: int) -> list[Row]:
    """Steps per second with and without, and processor time."""
    runs = folder / "trained"
    runs.mkdir()
    training = Training(runs)
    try:
        training.wait()
        time.sleep(WARM_SECONDS)
        with dashboard(runs, folder / "cache") as served, reader(served):
            served.get("/api/runs")
            slices, share = _slices(served, turns)
    finally:
        training.close()
    watched, alone = (np.array([training.speed(*each) for each in slices[which]]) for which in (True, False))
    costs = np.sort(100 * (1 - watched / alone))
    speeds = (f"{np.median(side):,.0f} steps/s" for side in (watched, alone))
    what = "the server and a reader of its stream, beside a run of PPO on CartPole"
    return [
        Cost(f"{what}: cost in steps/s", *speeds, float(np.median(costs)), MOST_PERCENT, " %", True,
             *median_interval(costs)),
        Row("the same: processor time of the server, of one core", f"{share:.2f} %", "", share, MOST_PERCENT,
            " %", most=True),
    ]  # fmt: skip


def _slices(served: Served, turns: int) -> tuple[dict[bool, list[tuple[float, float]]], float]:
    """The moments of slices with and without the server, and its processor time in percent of one core's."""
    slices: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    spent = 0.0
    for turn in range(2 * turns):
        watched = turn % 4 in (0, 3)  # with, without, without, with: what grows slower or faster counts for neither
        (served.process.resume if watched else served.process.suspend)()
        before, began = served.cpu_seconds, time.perf_counter()
        time.sleep(SLICE_SECONDS)
        slices[watched].append((began, time.perf_counter()))
        spent += served.cpu_seconds - before
    served.process.resume()
    time.sleep(1.0)  # until the run has told how far it was at the end
    return slices, 100 * spent / sum(ended - began for began, ended in slices[True])


if __name__ == "__main__":
    train(sys.argv[1])
