"""Updates a second of SAC, TD3 and DQN on a GPU, against Stable-Baselines3 on the same GPU in the same run:

    python benchmarks/gpu_offpolicy.py [--only NAME ...] [--rounds 5] [--device cuda] [--json FILE]

Both sides have the same sizes of nets and batches, and a replay buffer with the same number of transitions; no env is
stepped in the meantime. In the last row both step an env as well, one step for each update: ours on the GPU, theirs on
the CPU. Both sides take turns; figures are medians over the turns. Exits with 1 if a figure misses what it must reach.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row, ratio_row
from measure import in_turns
from report import measured, parser_for, report
from rookery.learners.learner import Learner, StepBatch
from rookery.learners.learner_spec import ReplayOptions
from rookery.learners.registry import DQNOptions, SACOptions, TD3Options, make_learner
from rookery.training.run.timing import Stopwatch
from rookery.training.run.training_state import make_collector

TRANSITIONS = 2_000
ENVS = 50
UPDATES = {"ours": 2_000, "theirs": 200}  # of a turn
LEAST = 6.0  # times SB3's
CONTINUOUS: dict[str, Any] = {"batch_size": 256, "hidden": [256, 256], "start_steps": TRANSITIONS}
PLAIN_DQN: dict[str, Any] = {
    "batch_size": 32, "hidden": [64, 64], "start_steps": TRANSITIONS, "dueling": False, "double": False, "n_step": 1,
    "prioritised": False, "tau": 1.0, "target_every": 10_000,
}  # fmt: skip


def ours(env_id: str, name: str, options: ReplayOptions, device: str) -> Callable[[], float]:
    """A turn of updates from a buffer of random transitions."""
    env = gym.make(env_id)
    learner = make_learner(name, env.observation_space, env.action_space, options, ENVS, 1, device)
    assert isinstance(learner, Learner)
    rng, rows = np.random.default_rng(1), slice(0, ENVS)
    seen = rng.standard_normal((ENVS, *env.observation_space.shape), np.float32)
    for _ in range(TRANSITIONS // ENVS + 4):
        learner.explore(seen, rows)
        seen = rng.standard_normal(seen.shape, np.float32)
        ended = rng.random(ENVS) < 0.02
        learner.record(rows, StepBatch(seen, rng.standard_normal(ENVS), ended, np.zeros(ENVS, np.bool_)))

    def turn() -> float:
        learner.execution.updates_due = float(UPDATES["ours"])
        return rate(learner.update, UPDATES["ours"], device)

    return turn


def theirs(algorithm: str, env_id: str, device: str, batch_size: int, hidden: list[int]) -> Callable[[], float]:
    """A turn of SB3's updates."""
    import stable_baselines3

    model = getattr(stable_baselines3, algorithm)(
        "MlpPolicy", env_id, batch_size=batch_size, learning_starts=TRANSITIONS, device=device, seed=1,
        policy_kwargs={"net_arch": hidden},
    )  # fmt: skip
    model.learn(TRANSITIONS)
    return lambda: rate(lambda: model.train(UPDATES["theirs"], batch_size), UPDATES["theirs"], device)


def our_loop(name: str, options: ReplayOptions, device: str) -> Callable[[], float]:
    """A turn of a run: rounds on a kernel world, and their updates."""
    envs = rookery.make_vec(
        "rookery/Pendulum-v1", 1, "cuda", autoreset_mode="SameStep", copy=False, bad_values="allow", device=device
    )
    spaces = envs.single_observation_space, envs.single_action_space
    collector = make_collector(envs, make_learner(name, *spaces, options, 1, 1, device), Stopwatch(), lambda steps: 0.0)
    collector.begin(*envs.reset(seed=1))
    collector.collect(options.start_steps, lambda: False)
    return lambda: rate(lambda: collector.collect(UPDATES["ours"], lambda: False), UPDATES["ours"], device)


def loop_row(rounds: int, device: str) -> list[Row]:
    """SAC with an update for each step of one env."""
    import stable_baselines3

    options = SACOptions(**CONTINUOUS)
    model = stable_baselines3.SAC(
        "MlpPolicy", "Pendulum-v1", batch_size=256, learning_starts=TRANSITIONS, device=device, seed=1,
        policy_kwargs={"net_arch": options.hidden},
    )  # fmt: skip
    model.learn(TRANSITIONS)
    steps = UPDATES["theirs"]
    sides = {
        "ours": our_loop("sac", options, device),
        "theirs": lambda: rate(lambda: model.learn(steps, reset_num_timesteps=False), steps, device),
    }
    in_turns(sides, 1)
    found = in_turns(sides, rounds)
    return [ratio_row("SAC steps/s with an update each, one env / SB3", found["ours"], found["theirs"], LEAST)]


def rate(work: Callable[[], Any], count: int, device: str) -> float:
    """How many a second."""
    if device != "cpu":
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return count / (time.perf_counter() - started)


def row(name: str, env_id: str, options: ReplayOptions, rounds: int, device: str, what: str = "") -> list[Row]:
    """One learner beside SB3's."""
    sides = {
        "ours": ours(env_id, name, options, device),
        "theirs": theirs(name.upper(), env_id, device, options.batch_size, options.hidden),
    }
    in_turns(sides, 1)  # captures, and lets libraries choose
    found = in_turns(sides, rounds)
    size = f"batch {options.batch_size}, {'x'.join(map(str, options.hidden))}"
    return [ratio_row(f"{name.upper()} updates/s{what}, {size} / SB3", found["ours"], found["theirs"], LEAST)]


def rows(rounds: int, device: str) -> dict[str, Callable[[], list[Row]]]:
    """By the names of the command line."""
    same = {"rounds": rounds, "device": device}
    return {
        "sac": partial(row, "sac", "Pendulum-v1", SACOptions(**CONTINUOUS), **same),
        "td3": partial(row, "td3", "Pendulum-v1", TD3Options(**CONTINUOUS), **same),
        "dqn": partial(row, "dqn", "CartPole-v1", DQNOptions(**PLAIN_DQN), **same),
        "dqn-all": partial(
            row, "dqn", "CartPole-v1", DQNOptions(batch_size=32, hidden=[64, 64], start_steps=TRANSITIONS), **same,
            what=", dueling, double, 3 steps, prioritised",
        ),
        "loop": partial(loop_row, **same),
    }  # fmt: skip


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, rows(1, "cpu"), rounds=5)
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")  # those of the peers
    return report(measured(rows(args.rounds, args.device), args.only), "off-policy learners on a GPU", args.json)


if __name__ == "__main__":
    sys.exit(main())
