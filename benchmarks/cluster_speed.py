"""What it costs a run on one machine to have its envs on Ray, and whether its numbers stay the same."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

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
    """Steps per second through Ray and without, in turns: the other run is stopped meanwhile."""
    title, config, seconds = WORLDS[world]
    with running(config, folder, "alone") as alone, running({**config, **on_ray()}, folder, "ray") as ray:
        for run in (alone, ray):
            run.wait_rollouts(5)
        sides = {"ray": ray, "alone": alone}
        for run in sides.values():
            run.pause(True)
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(turns):
            for name, run in sides.items():
                rates[name].append(_slice(run, seconds))
    arrays = {name: np.array(values) for name, values in rates.items()}
    return [ratio_row(f"{title}: through Ray over without", arrays["ray"], arrays["alone"], LEAST)]


def _slice(run: Run, seconds: float) -> float:
    run.pause(False)
    run.wait_rollouts(1)  # it may have been stopped in the middle of one
    began = time.monotonic() - 0.02
    time.sleep(seconds)
    ended = time.monotonic()
    run.pause(True)
    return run.speed(began, ended)


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
    import rookery

    options = {"rollout_length": 16, "normalise_rewards": True, "learning_rate_schedule": "linear"}
    config = {**CARTPOLE, "num_envs": 7, "steps": 7 * 16 * UPDATES, "ppo": options, "runs_dir": str(folder)}

    def trained(name: str, **cluster: Any) -> dict[str, str]:
        path = rookery.train({**config, "name": name, **cluster}).path
        hashes = last_checkpoint(path)
        return {part: value for part, value in hashes.items() if not part.startswith("envs")}  # by collector there

    alone = trained("alone")
    found = {count: trained(f"ray{count}", **on_ray(count)) for count in (1, 2, 3)}
    equal = [count for count, hashes in found.items() if hashes == alone]
    what = f"PPO over 1, 2 and 3 collectors of Ray, {UPDATES} updates: how many have the weights of one machine"
    return [Row(what, f"{equal}", f"{len(alone) - 1} files", len(equal), len(found), "")]
