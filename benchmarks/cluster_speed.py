"""What it costs a run on one machine to have its envs on Ray, and whether its numbers stay the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cluster_runs import CARTPOLE, SLOW, Run, on_ray, running
from engine_rows import Row, ratio_row
from gpu_identical import last_checkpoint

LEAST = 0.9
MOST_SECONDS = 10.0
WORLDS: dict[str, tuple[str, dict[str, Any], float]] = {  # title, configuration, seconds of a slice
    "cartpole": ("PPO on CartPole, kernel world", CARTPOLE, 2.0),
    "slow": ("PPO on a Python env of 1 ms, 8 envs", SLOW, 5.0),
}
UPDATES = 20


def speed_rows(folder: Path, world: str, turns: int) -> list[Row]:
    """Steps per second through Ray and without, in turns: the other run is stopped in the meantime."""
    title, config, seconds = WORLDS[world]
    with running(config, folder, "alone") as alone:
        alone.wait_rollouts(5)
        alone.pause(True)  # Ray needs the cores to start
        with running({**config, **on_ray()}, folder, "ray") as ray:
            ray.wait_rollouts(5)
            ray.pause(True)
            slices = _slices({"ray": ray, "alone": alone}, turns, seconds)
    rates = {name: np.array([each.steps_per_second for each in found]) for name, found in slices.items()}
    rows = [ratio_row(f"{title}: through Ray over without", rates["ray"], rates["alone"], LEAST)]
    return rows if world == "slow" else [*rows, _cost_row(title, slices)]  # the slow env's steps are in Ray's processes


def _cost_row(title: str, slices: dict[str, list[Slice]]) -> Row:
    """CPU time of the run and its workers a step, beside what Ray's own processes take."""
    costs = {name: np.array([each.cpu_per_step for each in found]) for name, found in slices.items()}
    texts = [f"{1e6 * np.median(costs[name]):.2f} us" for name in ("ray", "alone")]
    cheaper = float(np.median(costs["alone"]) / np.median(costs["ray"]))
    idle = 100 * float(np.median([each.cpu_of_ray for each in slices["ray"]]))
    measure = f"{title}: CPU time a step, without Ray over with (Ray's own processes: {idle:.1f} % of a core)"
    return Row(measure, *texts, cheaper, LEAST)


class Slice(NamedTuple):
    """What a run did in a few seconds."""

    steps_per_second: float
    cpu_per_step: float  # seconds of its process and its workers
    cpu_of_ray: float  # seconds of the cluster's processes in a second


def _slices(sides: dict[str, Run], turns: int, seconds: float) -> dict[str, list[Slice]]:
    """Of both sides in turns; the other one is stopped in the meantime."""
    found: dict[str, list[Slice]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, run in sides.items():
            found[name].append(_slice(run, seconds))
    return found


def _slice(run: Run, seconds: float) -> Slice:
    run.pause(False)
    run.wait_rollouts(1)  # it may have been stopped in the middle of one
    began, before = time.monotonic() - 0.02, run.cpu_seconds()
    time.sleep(seconds)
    ended, after = time.monotonic(), run.cpu_seconds()
    run.pause(True)
    rate, (own, of_ray) = run.speed(began, ended), np.subtract(after, before)
    return Slice(rate, own / (rate * (ended - began)), of_ray / (ended - began))


def start_rows(folder: Path, rounds: int) -> list[Row]:
    """From the start of the process to the end of the first rollout, in turns; the first turn compiles."""
    seconds: dict[str, list[float]] = {"ray": [], "alone": []}
    for k in range(rounds + 1):
        for name, config in (("ray", {**CARTPOLE, **on_ray()}), ("alone", CARTPOLE)):
            with running(config, folder, f"{name}{k}") as run:
                run.wait_rollouts(1)
                seconds[name].append(run.told[0][0] - run.started)
                run.interrupt()
    best = {name: min(values[1:]) for name, values in seconds.items()}
    texts = f"{best['ray']:.1f} s", f"{best['alone']:.1f} s"
    what = f"start to first rollout, the best of {rounds}: with Ray, without, how much longer"
    return [Row(what, *texts, best["ray"] - best["alone"], MOST_SECONDS, " s", most=True)]


def same_rows(folder: Path) -> list[Row]:
    """The last checkpoints of runs over 1, 2 and 3 collectors, beside the run without Ray."""
    options = {"rollout_length": 16, "normalise_rewards": True, "learning_rate_schedule": "linear"}
    config = {**CARTPOLE, "num_envs": 7, "steps": 7 * 16 * UPDATES, "ppo": options}

    def trained(name: str, **cluster: Any) -> dict[str, str]:
        # Each in a process of its own, as users have them: torch's first weights depend on how many threads it has, and
        # a run leaves torch with the number that suits it.
        with running({**config, **cluster}, folder, name) as run:
            run.process.wait(300)
            hashes = last_checkpoint(run.path)
        return {part: value for part, value in hashes.items() if not part.startswith("envs")}  # by collector there

    alone = trained("alone")
    found = {count: trained(f"ray{count}", **on_ray(count)) for count in (1, 2, 3)}
    equal = [count for count, hashes in found.items() if hashes == alone]
    what = f"PPO over 1, 2 and 3 collectors of Ray, {UPDATES} updates: how many have the weights of one machine"
    return [Row(what, f"{equal}", f"{len(alone) - 1} files", len(equal), len(found), "")]
