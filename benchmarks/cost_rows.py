"""What the cost of a change is measured on: a row is a name and a function that sets the work up.

It is run with the working tree's `rookery` and with another commit's, so it uses what both of them have. It returns a
turn: a function that does the work so many times and says how many seconds that took.

    python benchmarks/cost_rows.py NAME     # one side of a comparison: reads numbers of calls, answers with seconds
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any

import rookery
from rookery.engine import loops

Turn = Callable[[int], float]
NEVER = 10**15  # steps


def stepping(world: str, num_envs: int, **options: Any) -> Turn:
    """Steps of a vector env, with actions drawn beforehand."""
    envs = rookery.make_vec(world, num_envs, **options)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = cycle([envs.action_space.sample() for _ in range(64)])
    step = envs.step

    def turn(calls: int) -> float:
        start = perf_counter()
        for batch in islice(actions, calls):
            step(batch)
        return perf_counter() - start

    return turn


class InTurns(rookery.Callback):
    """Has a run make so many rollouts, or updates of an off-policy learner, whenever a turn asks for them."""

    def __init__(self) -> None:
        self.asked: SimpleQueue[int] = SimpleQueue()
        self.answers: SimpleQueue[float] = SimpleQueue()
        self._left, self._started = 0, 0.0

    def on_rollout(self, run: Any) -> None:
        if self._left == 0:
            if self._started:
                self.answers.put(perf_counter() - self._started)
            self._left, self._started = self.asked.get(), perf_counter()
        self._left -= 1

    def turn(self, calls: int) -> float:
        self.asked.put(calls)
        return self.answers.get()


def training(world: str, num_envs: int, learner: str, device: str = "cpu", **options: Any) -> Turn:
    """Rollouts of a run with what it does between them: it acts, steps, learns, counts and logs. The run has a thread
    of its own, which waits between two turns."""
    turns = InTurns()
    run = partial(
        rookery.train, world, learner=learner, num_envs=num_envs, steps=NEVER, device=device, seed=1, callbacks=[turns],
        runs_dir=tempfile.mkdtemp(prefix="rookery-cost-"), evaluation={"every": NEVER}, checkpoints={"every": NEVER},
        monitor={"panel": False, "plot": False, "tensorboard": False}, **{learner: options},
    )  # fmt: skip
    Thread(target=run, daemon=True).start()
    turns.turn(8)  # compiles and captures
    return turns.turn


PPO: dict[str, Any] = {"rollout_length": 128, "epochs": 4, "minibatches": 4, "hidden": [64, 64], "threads": 1}
WIDE: dict[str, Any] = {"rollout_length": 32, "epochs": 4, "minibatches": 4, "hidden": [64, 64]}
REPLAY: dict[str, Any] = {"batch_size": 256, "hidden": [256, 256], "start_steps": 256, "updates_per_step": 1 / 64}
GPU_REPLAY = REPLAY | {"start_steps": 8192, "updates_per_step": 0.01}
CPU_REPLAY = REPLAY | {"threads": 1}
SMALL_REPLAY = CPU_REPLAY | {"batch_size": 64, "hidden": [64, 64]}
ROWS: dict[str, tuple[str, Callable[[], Turn]]] = {
    "cartpole_process": (
        "CartPole-v1, 8 envs, 2 processes",
        partial(stepping, "CartPole-v1", 8, backend="process", workers=2),
    ),
    "cartpole_kernel": ("CartPole, 64 envs, kernel", partial(stepping, "rookery/CartPole-v1", 64)),
    "hockey_kernel": ("hockey, 1,024 games, kernel", partial(stepping, "rookery/HockeyOne-v0", 1024)),
    "ppo_kernel": ("PPO, CartPole, 64 x 128", partial(training, "rookery/CartPole-v1", 64, "ppo", **PPO)),
    "ppo_python": ("PPO, Gymnasium's CartPole, 8 x 128", partial(training, "CartPole-v1", 8, "ppo", **PPO)),
    "dqn_python": ("DQN, Gymnasium's CartPole", partial(training, "CartPole-v1", 8, "dqn", **SMALL_REPLAY)),
    "sac_kernel": ("SAC, Pendulum", partial(training, "rookery/Pendulum-v1", 8, "sac", **CPU_REPLAY)),
    "td3_kernel": ("TD3, Pendulum", partial(training, "rookery/Pendulum-v1", 8, "td3", **CPU_REPLAY)),
}
ON_A_GPU: dict[str, tuple[str, Callable[[], Turn]]] = {
    "ppo_gpu": ("PPO, GPU, 8,192 x 32", partial(training, "rookery/CartPole-v1", 8192, "ppo", "cuda", **WIDE)),
    "dqn_gpu": ("DQN, GPU, 1,024 envs", partial(training, "rookery/CartPole-v1", 1024, "dqn", "cuda", **GPU_REPLAY)),
    "sac_gpu": ("SAC, GPU, 1,024 envs", partial(training, "rookery/Pendulum-v1", 1024, "sac", "cuda", **GPU_REPLAY)),
    "td3_gpu": ("TD3, GPU, 1,024 envs", partial(training, "rookery/Pendulum-v1", 1024, "td3", "cuda", **GPU_REPLAY)),
    "ppo_gpu_python": ("PPO, GPU, Gymnasium's CartPole", partial(training, "CartPole-v1", 8, "ppo", "cuda", **PPO)),
}
if shutil.which("nvidia-smi"):
    ROWS |= ON_A_GPU


def main(name: str) -> None:
    """First says which `rookery` this is; then a line for a line."""
    logging.getLogger("rookery").setLevel(logging.WARNING)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the work itself prints is not an answer
    turn = ROWS[name][1]()
    print(rookery.__file__, loops.COMPILED, file=answers)
    for line in sys.stdin:
        print(turn(int(line)), file=answers)


if __name__ == "__main__":
    main(sys.argv[1])
