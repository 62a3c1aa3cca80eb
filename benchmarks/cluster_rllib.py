"""PPO on a Ray cluster by rookery and by RLlib's new stack, on this machine:

    python benchmarks/cluster_rllib.py --rllib-python PATH [--only NAME ...] [--rounds 3] [--seconds 20] [--json FILE]

PATH is the interpreter of a virtual environment with `ray[rllib]` and torch: RLlib needs an older Gymnasium than ours.
Both sides have a cluster of their own with as many cores, the learner in the process that was started, 8 envs, 128
steps of each in a rollout, 4 epochs with minibatches of 256 rows, and two perceptrons with 64 and 64 tanh units. RLlib
has two env runners with 4 envs each, rookery an engine with two workers. They train in turns, in slices: the other side
is stopped in the meantime. Exits with 1 if rookery makes less than 5 times their env steps a second in a row that must.

- cartpole: Gymnasium's CartPole-v1 on both sides
- kernel: our compiled CartPole, which makes the same steps as Gymnasium's, beside Gymnasium's on theirs
- slow: an env in Python that takes 1 ms a step on both sides. Two processes that only step it take their turns too:
  what they make is the most that any side can, and is printed beside what both sides make
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np

from cluster_runs import CARTPOLE, SETTINGS, SLOW, Run, on_ray, running
from engine_rows import Row, ratio_row
from report import markdown, measured, parser_for, report
from rookery.engine.machine import usable_cores

ENVS, LENGTH, EPOCHS, MINIBATCHES, WORKERS = 8, 128, 4, 4, 2
LEAST = 5.0
LEAST_OF_ENV = 0.8
PPO = {"rollout_length": LENGTH, "epochs": EPOCHS, "minibatches": MINIBATCHES, "hidden": [64, 64]}
WORLDS: dict[str, tuple[str, dict[str, Any], str, float]] = {  # title, our configuration, their env, what is needed
    "cartpole": (
        "CartPole-v1 in Python",
        {**SETTINGS, "world": "CartPole-v1", "compiled": False, "backend": "process", "workers": WORKERS},
        "CartPole-v1",
        LEAST,
    ),
    "kernel": ("CartPole, compiled on our side", CARTPOLE, "CartPole-v1", LEAST),
    "slow": ("a Python env of 1 ms", {**SLOW, "workers": WORKERS}, "slow", LEAST),
}


def rows(world: str, rllib_python: str, turns: int, seconds: float) -> list[Row]:
    """Env steps a second of both sides, in turns."""
    title, config, their_env, least = WORLDS[world]
    ours = {**config, "num_envs": ENVS, "ppo": PPO, **on_ray()}
    theirs = {
        "env": their_env, "runners": WORKERS, "envs": ENVS, "cpus": usable_cores(), "rollout_length": LENGTH,
        "minibatch": ENVS * LENGTH // MINIBATCHES, "epochs": EPOCHS,
    }  # fmt: skip
    here = Path(__file__).parent
    commands = {"rllib": [rllib_python, str(here / "rllib_side.py")]}
    if their_env == "slow":
        commands["maximum"] = [sys.executable, str(here / "env_maximum.py")]
    with tempfile.TemporaryDirectory(prefix="rllib-") as name, ExitStack() as runs:
        sides = {}
        for side, command in {**commands, "rookery": None}.items():
            run = runs.enter_context(running(ours if command is None else theirs, Path(name), side, command))
            run.wait_rollouts(5)
            run.pause(True)
            sides[side] = run
        rates, costs = _measure(sides, turns, seconds)
    return _made_rows(f"PPO on {title}, {ENVS} envs", rates, costs, least)


def _made_rows(what: str, rates: dict[str, np.ndarray], costs: dict[str, np.ndarray], least: float) -> list[Row]:
    """Beside RLlib, and beside the env alone where that was measured."""
    ours_us, theirs_us = (1e6 * float(np.median(costs[side])) for side in ("rookery", "rllib"))
    texts = f"{ours_us:,.0f} us", f"{theirs_us:,.0f} us"
    found = [ratio_row(f"{what}: env steps/s over RLlib's", rates["rookery"], rates["rllib"], least)]
    if "maximum" not in rates:
        cost = Row(f"{what}: CPU time a step of all processes, RLlib's over ours", *texts, theirs_us / ours_us, least)
        return [*found, cost]
    most = rates["maximum"]
    return [
        *found,
        ratio_row(f"{what}: the env alone over RLlib's, the most that any side can reach", most, rates["rllib"], 0.0),
        ratio_row(f"{what}: env steps/s over those of the env alone", rates["rookery"], most, LEAST_OF_ENV),
        Row(f"{what}: CPU time a step of all processes, beyond the env's 1 ms, RLlib's over ours",
            *texts, (theirs_us - 1e3) / (ours_us - 1e3), 1.0),
    ]  # fmt: skip


def _measure(sides: dict[str, Run], turns: int, seconds: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Env steps a second of both sides, and CPU seconds a step."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    costs: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, run in sides.items():
            cpu, steps = sum(run.cpu_seconds()), run.told[-1][1]
            rates[name].append(run.rate_for(seconds))
            costs[name].append((sum(run.cpu_seconds()) - cpu) / (run.told[-1][1] - steps))
    return {name: np.array(found) for name, found in rates.items()}, {name: np.array(c) for name, c in costs.items()}


def main() -> int:
    """Measure and print, as a table and as Markdown."""
    parser = parser_for(__doc__, WORLDS, rounds=3)
    parser.add_argument("--rllib-python", required=True, help="the interpreter of an environment with ray[rllib]")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a slice")
    options = parser.parse_args()
    measures = {world: partial(rows, world, options.rllib_python, options.rounds, options.seconds) for world in WORLDS}
    results = measured(measures, options.only, options.json)
    missed = report(results, "PPO beside RLlib", options.json)
    print(markdown(results))
    return missed


if __name__ == "__main__":
    sys.exit(main())
