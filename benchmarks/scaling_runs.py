"""Runs of PPO with several collectors on this machine, for `scaling_model.py`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cluster_runs import SETTINGS, Run, on_ray, running

LENGTH = 64


@dataclass(frozen=True)
class Load:
    """What a collector steps."""

    world: str
    num_envs: int
    workers: int | None = None  # processes; without them the collector steps its envs itself

    @property
    def steps(self) -> int:
        """Of a rollout."""
        return self.num_envs * LENGTH


WAITING = Load("Waiting", 4)
BUSY = Load("Slow", 8, workers=2)


def measure_link(payload: int = 32 << 20) -> tuple[float, float]:
    """Seconds of a call without data, and bytes a second through the object store of this machine."""
    from rookery.cluster.ray_doctor import NodeProbe, clock_offset, rate_of, send_to
    from rookery.cluster.ray_start import load_ray, open_ray

    with open_ray(None):
        ray = load_ray()
        probe = ray.remote(num_cpus=0)(NodeProbe).remote()
        ray.get(probe.facts.remote())
        call, _ = clock_offset(lambda: ray.get(probe.clock.remote()))
        rates = [rate_of(lambda: send_to(ray, probe), call), rate_of(lambda: ray.get(probe.make.remote(payload)), call)]
    return call, min(rates)


def config(load: Load, collectors: int) -> dict[str, Any]:
    """A run in which each collector has its own envs, whose steps take a millisecond."""
    world = f"{Path(__file__).parent / 'engine_worlds.py'}:{load.world}"
    stepped = {"backend": "serial"} if load.workers is None else {"workers": load.workers * collectors}
    own = {"world": world, "num_envs": load.num_envs * collectors, "ppo": {"rollout_length": LENGTH}, **stepped}
    return {**SETTINGS, **own, "world_options": {"seconds": 1e-3}, **on_ray(collectors)}


def measured_rate(run: Run, seconds: float) -> float:
    """Steps per second; the best of three slices, as other programs may disturb some."""
    run.wait_rollouts(5)
    rates = []
    for _ in range(3):
        began = time.monotonic()
        time.sleep(seconds)
        rates.append(run.speed(began, time.monotonic()))
    return float(np.nanmax(rates))


def time_shares(run: Run) -> dict[str, float]:
    """The parts of the time of a run, by its last report of progress, and how much of it collectors step."""
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    progress = [line for line in lines if line["kind"] == "progress" and "time/waiting" in line]
    return {key: value for key, value in progress[-1].items() if key.startswith("time/") or key == "cluster/busy"}


def update_seconds(load: Load, collectors: int, rounds: int = 5) -> float:
    """The learner's update for the rollout of so many collectors, on the cores that the run has: the best of some."""
    from engine_worlds import Busy
    from rookery.engine.machine import usable_cores
    from rookery.learners.cpu_threads import threads_for
    from rookery.learners.learner import StepBatch
    from rookery.learners.registry import make_learner, option_classes

    rows, space = load.num_envs * collectors, Busy.observation_space
    options = option_classes()["ppo"](rollout_length=LENGTH)
    seconds: list[float] = []
    with cores_for(load, collectors):
        learner = make_learner("ppo", space, Busy.action_space, options, rows, 0)
        learner.use_threads(threads_for(learner, "ppo", usable_cores()))
        space.seed(0)
        observations, never = np.stack([space.sample() for _ in range(rows)]), np.zeros(rows, bool)
        step = StepBatch(observations, np.ones(rows, np.float32), never, never, None, None)
        for _ in range(rounds + 1):
            while not learner.ready():
                learner.explore(observations, slice(0, rows))
                learner.record(slice(0, rows), step)
            began = time.perf_counter()
            learner.update()
            seconds.append(time.perf_counter() - began)
    return min(seconds[1:])  # the first one compiles


def sizes(load: Load) -> tuple[int, float, float]:
    """A collector's steps, and bytes of the weights and of its rollout: two perceptrons, and six arrays of a step."""
    from engine_worlds import Busy

    observation = int(np.prod(Busy.observation_space.shape)) * 4
    hidden = 64
    weights = 2 * 4 * (observation // 4 * hidden + hidden * hidden + 3 * hidden)
    return load.steps, weights, load.steps * (observation + 6 * 4)


@contextmanager
def cores_for(load: Load, collectors: int) -> Iterator[None]:
    """Let programs that are started have no more cores than so many collectors have workers."""
    every = os.sched_getaffinity(0)
    if load.workers is not None:
        os.sched_setaffinity(0, sorted(every)[: load.workers * collectors])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


@dataclass(frozen=True)
class Measured:
    """A run with some collectors."""

    collectors: int
    rate: float  # steps per second
    shares: dict[str, float]  # see `time_shares`

    def text(self, steps: int) -> str:
        """What became of the time of a rollout, in which each collector makes so many steps."""
        seconds = self.collectors * steps / self.rate
        parts = {name.partition("/")[2]: 1e3 * share * seconds for name, share in self.shares.items()}
        named = ", ".join(f"{name} {value:.1f}" for name, value in parts.items() if value >= 0.05)
        return f"{self.collectors} collectors: {self.rate:,.0f} steps/s; ms of a rollout's {1e3 * seconds:.1f}: {named}"


def measure(load: Load, collectors: int, seconds: float, folder: Path) -> Measured:
    """A run with so many collectors, on as many cores as they have workers."""
    with cores_for(load, collectors), running(config(load, collectors), folder, f"run{collectors}") as run:
        return Measured(collectors, measured_rate(run, seconds), time_shares(run))
