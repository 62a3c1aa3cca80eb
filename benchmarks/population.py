"""A population of PPO trials over the same trials one by one, and whether each has the curve that it has alone:

    python benchmarks/population.py [--device cuda] [--members 16] [--steps 100000] [--alone 16] [--json FILE]

Both sides train kernel CartPole with nets of 64x64 and the recipe of `rookery train`, and write the same files: config,
metrics, episodes, evaluations, checkpoints and summary. "One by one" is `rookery.train` for each trial in turn, in
this process; with `--alone N` only N of them are trained, and their mean counts for all. Exits with 1 below what it
must reach. On a CPU both sides take the same core-seconds, so that 2 cores can be at most twice as fast.

The curves are compared over the first 20 updates. On a CPU they are equal bit for bit. On a GPU batched products round
otherwise than single ones, which a learning rate above 5e-4 amplifies to another action within 20 updates: the trials
have rates up to 4e-4.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import rookery
from rookery.config import RunConfig, build_config
from rookery.training.population.train_population import train_population
from rookery.training.run.callbacks import Result

RATES, GAMMAS, ENTROPIES = (1e-4, 2e-4, 3e-4, 4e-4), (0.97, 0.98, 0.99), (0.0, 0.005)
MUST_REACH = {"cpu": 3.0, "cuda": 12.0}
UPDATES, ROWS_PER_UPDATE = 20, 16 * 64  # of the recipe: 16 envs, 64 steps
TOLERANCE = 1e-3  # of weights after so many updates, on a GPU


def trials(members: int, steps: int, device: str, folder: str, **more: Any) -> list[RunConfig]:
    """Configurations that differ in numbers and seeds."""
    return [
        build_config(
            "CartPole-v1", learner="ppo", steps=steps, device=device, runs_dir=folder, seed=k, verbose=False,
            monitor={"plot": False}, ppo={
                "learning_rate": RATES[k % 4], "gamma": GAMMAS[k % 3], "entropy": ENTROPIES[k % 2],
                "clip": 0.1 + 0.02 * (k % 5), "gae_lambda": 0.9 + 0.01 * (k % 7),
            }, **more,
        )
        for k in range(members)
    ]  # fmt: skip


def seconds(call: Callable[[], list[Result]], device: str) -> tuple[float, float]:
    """How long a call takes, with all that the device has to do for it, and the time of all its threads on cores."""
    started, on_cores = time.perf_counter(), time.process_time()
    call()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - started, time.process_time() - on_cores


def one_by_one(configs: list[RunConfig]) -> list[Result]:
    return [rookery.train(config) for config in configs]


def weights_of(result: Result) -> torch.Tensor:
    return torch.cat(
        [weight.detach().cpu().flatten() for weight in rookery.load(result.path, best=False).policy.parameters()]
    )


def curve_of(result: Result) -> list[tuple[Any, Any]]:
    """Step and return of every episode."""
    lines = (json.loads(line) for line in (result.path / "episodes.jsonl").read_text().splitlines())
    return [(line.get("step"), line.get("return")) for line in lines]


def compare(members: int, device: str, folder: str) -> dict[str, Any]:
    """The first updates of each trial, alone and in the population."""
    configs = trials(members, UPDATES * ROWS_PER_UPDATE, device, folder)
    together, alone = train_population(configs), one_by_one(configs)
    pairs = list(zip(together, alone, strict=True))
    return {
        "updates": UPDATES,
        "equal_curves": sum(curve_of(a) == curve_of(b) for a, b in pairs),
        "largest_difference_of_weights": max(float((weights_of(a) - weights_of(b)).abs().max()) for a, b in pairs),
        "equal_evaluations": sum(a.evaluation == b.evaluation for a, b in pairs),
        "of": members,
    }


def measure(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Both sides, after a short run of each that compiles what they need."""
    for call in (train_population, one_by_one):
        call(trials(2, 4 * ROWS_PER_UPDATE, options.device, folder))
    configs = trials(options.members, options.steps, options.device, folder)
    together, cores_together = seconds(lambda: train_population(configs), options.device)
    some = configs[: options.alone]
    alone, cores_alone = (x * len(configs) / len(some) for x in seconds(lambda: one_by_one(some), options.device))
    return {
        "device": torch.cuda.get_device_name() if options.device != "cpu" else "cpu",
        "members": options.members,
        "steps": options.steps,
        "one_by_one_seconds": round(alone, 2),
        "population_seconds": round(together, 2),
        "one_by_one_core_seconds": round(cores_alone, 2),
        "population_core_seconds": round(cores_together, 2),
        "times_as_fast": round(alone / together, 2),
        "must_reach": MUST_REACH[options.device.partition(":")[0]],
        **compare(options.members, options.device, folder),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--alone", type=int, default=16)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options, folder)
    print(json.dumps(row, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(row))
    exact = options.device == "cpu"
    same = row["equal_curves"] == row["of"] and row["largest_difference_of_weights"] <= (0.0 if exact else TOLERANCE)
    return 0 if same and row["times_as_fast"] >= row["must_reach"] else 1


if __name__ == "__main__":
    sys.exit(main())
