"""Python envs with a learner on a GPU: what training costs beside stepping alone, and where the time goes.

    python benchmarks/gpu_python_envs.py                       # 16 envs of 1 ms, on a GPU and as many cores
    python benchmarks/gpu_python_envs.py --device cpu --num-envs 2

The envs burn CPU time, one worker for each of them. SAC makes one update in each round of steps. `kernel` is a world
that is stepped on CPU threads while the learner is on the GPU: the path of GPUs that cannot step worlds themselves.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from engine_rows import Row
from engine_worlds import SlowControl
from report import report
from rookery.engine.machine import usable_cores
from rookery.learners.learner import Learner
from rookery.learners.registry import make_learner, option_classes
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch

ROUNDS = 256  # of steps in a slice
SAC = {"updates_per_step": 1.0, "updates_each": "round", "start_steps": 256, "batch_size": 256, "hidden": [256, 256]}


def make_envs(num_envs: int, groups: int = 1, seconds: float = 1e-3) -> Any:
    """As a run makes them, with a worker for each env where there are cores."""
    workers = min(num_envs, usable_cores())
    return rookery.make_vec(
        SlowControl, num_envs, "process", workers, groups=groups, autoreset_mode="SameStep", copy=False,
        env_kwargs={"seconds": seconds},
    )  # fmt: skip


class Trained:
    """Envs and a learner, as a run's loop drives them."""

    def __init__(self, envs: Any, learner: Learner) -> None:
        self.envs, self.learner, self.stopwatch = envs, learner, Stopwatch()
        self.collector = Collector(envs, learner, self.stopwatch, lambda steps: 0.0)
        self.collector.begin(*envs.reset(seed=1))

    def measure(self, rounds: int = ROUNDS) -> float:
        """Env steps a second, with all the learning that they bring."""
        before, started = self.collector.steps, time.perf_counter()
        while self.collector.steps - before < rounds * self.envs.num_envs:
            self.collector.collect(self.learner.steps_until_update, lambda: False)
            self.collector.update()
            self.envs.finished_episodes()
        return (self.collector.steps - before) / (time.perf_counter() - started)

    def close(self) -> None:
        self.collector.close()
        self.envs.close()


def trained(envs: Any, name: str, options: dict[str, Any], device: str) -> Trained:
    """A new learner on these envs."""
    spaces_ = envs.single_observation_space, envs.single_action_space
    learner = make_learner(name, *spaces_, option_classes()[name](**options), envs.num_envs, 1, device)
    return Trained(envs, learner)


def stepping(envs: Any, rounds: int = ROUNDS) -> float:
    """Stepping alone, with fixed actions: env steps a second."""
    envs.reset(seed=1)
    actions = np.stack([envs.single_action_space.sample() for _ in range(envs.num_envs)])
    started = time.perf_counter()
    for _ in range(rounds):
        envs.step(actions)
    return rounds * envs.num_envs / (time.perf_counter() - started)


def against_stepping(name: str, options: dict[str, Any], device: str, num_envs: int, turns: int) -> tuple[Row, dict]:
    """Training over stepping alone, before and after it in the same envs; and the shares of the time in training."""
    envs = make_envs(num_envs, groups=2 if name == "ppo" else 1)
    alone = [stepping(envs) for _ in range(turns)]
    run = trained(envs, name, options, device)
    run.measure()  # captures and settles
    run.stopwatch.shares()
    training = [run.measure() for _ in range(turns)]
    shares = {part: round(share, 3) for part, share in run.stopwatch.shares().items()}
    alone += [stepping(envs) for _ in range(turns)]
    run.close()
    ratio = float(np.median(training) / np.median(alone))
    title = f"1 ms Python env, {num_envs} envs, {name.upper()} on {device}: env steps/s over stepping alone"
    sides = (f"{np.median(side):,.0f}/s" for side in (training, alone))
    return Row(title, *sides, value=ratio, least=0.9), shares


def kernel_speed(device: str, groups: int, num_envs: int = 4096) -> float:
    """PPO on a world that is stepped on CPU threads: env steps a second."""
    envs = rookery.make_vec(
        "rookery/CartPole-v1", num_envs, "kernel", groups=groups, autoreset_mode="SameStep", copy=False
    )
    options = {"rollout_length": 32, "hidden": [64, 64], "epochs": 4, "minibatches": 4}
    run = trained(envs, "ppo", options, device)
    run.measure(64)
    speed = run.measure(256)
    run.close()
    return speed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="+", choices=("sac", "ppo", "kernel"), default=("sac", "ppo", "kernel"))
    args = parser.parse_args()
    rows, shares = [], {}
    if "sac" in args.only:
        row, shares["sac"] = against_stepping("sac", SAC, args.device, args.num_envs, args.turns)
        rows.append(row)
    if "ppo" in args.only:
        row, shares["ppo"] = against_stepping("ppo", {"rollout_length": 64}, args.device, args.num_envs, args.turns)
        row.least = 0.0  # epochs of PPO cannot be made while its envs step
        rows.append(row)
    print(json.dumps(shares))
    if "kernel" in args.only:
        speeds = {f"{groups} groups": round(kernel_speed(args.device, groups)) for groups in (1, 2)}
        print(f"PPO, 4,096 x rookery/CartPole-v1 on CPU threads, learner on {args.device}, steps/s: {speeds}")
    return report(rows, "Python envs with a learner on a GPU", args.json) if rows else 0


if __name__ == "__main__":
    raise SystemExit(main())
