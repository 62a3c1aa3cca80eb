"""MuJoCo worlds on a GPU, simulated by mujoco-warp, beside the same worlds on all cores of the CPU:

    python benchmarks/mujoco_gpu.py [--only speed repeat agree training race] [--tasks HalfCheetah ...] [--seeds 1]
                                    [--json FILE]

- speed: env steps/s with random actions, for numbers of envs on the GPU, and with 1,024 envs on the CPU
- repeat: from where on two engines with the same seed and actions give other numbers, if they do
- agree: how far the first steps are from those of MuJoCo on the CPU, from the same states and actions
- training: `rookery train ID --set backend=cuda --set device=cuda`, and what the agent reaches on both
- race: seconds until XQC has the return that PPO ends with, from the start on and without evaluations, over PPO's; both
  by their recipes, medians over seeds
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

import rookery
from engine_rows import Row
from measure import rate
from report import measured, parser_for, report, said

TASKS = ("HalfCheetah", "Hopper", "Ant", "Humanoid")
ENVS, CPU_ENVS = (1024, 8192), 1024
EVERY = 250_000  # steps between two evaluations of a race


def make(task: str, envs: int, backend: str = "cuda") -> Any:
    return rookery.make_vec(f"rookery/{task}-v5", envs, backend=backend, autoreset_mode=AutoresetMode.SAME_STEP)


def random_actions(envs: Any, count: int, seed: int = 0) -> list[np.ndarray]:
    space, rng = envs.single_action_space, np.random.default_rng(seed)
    shape = (envs.num_envs, *space.shape)
    return [rng.uniform(space.low, space.high, shape).astype(np.float32) for _ in range(count)]


def speed(task: str) -> list[Row]:
    cpu = make(task, CPU_ENVS, "kernel")
    cpu.reset(seed=0)
    drawn = random_actions(cpu, 8)
    on_cpu = max(rate(_next(cpu, drawn), CPU_ENVS, 1.0) for _ in range(3))
    cpu.close()
    rows = []
    for count in ENVS:
        envs = make(task, count)
        envs.reset(seed=0)
        step = _next(envs, [torch.from_numpy(actions).cuda() for actions in random_actions(envs, 8)])
        on_gpu = max(rate(partial(_steps, step, 10), 10 * count, 2.0) for _ in range(3))
        envs.close()
        title = f"{task}, {count:,} envs on the GPU over {CPU_ENVS:,} on all cores, steps/s"
        rows.append(Row(title, f"{on_gpu:,.0f}", f"{on_cpu:,.0f}", on_gpu / on_cpu, 0.0))
    return rows


def _next(envs: Any, drawn: list[Any]) -> Callable[[], Any]:
    at = [0]

    def step() -> None:
        at[0] = (at[0] + 1) % len(drawn)
        envs.step(drawn[at[0]])

    return step


def _steps(step: Callable[[], Any], count: int) -> None:
    for _ in range(count):
        step()
    torch.cuda.synchronize()


def trajectory(envs: Any, actions: list[np.ndarray]) -> list[np.ndarray]:
    return [envs.step(torch.from_numpy(action).cuda())[0].cpu().numpy().copy() for action in actions]


def repeat(task: str) -> list[Row]:
    found = []
    for _ in range(2):
        envs = make(task, 512)
        envs.reset(seed=1)
        found.append(trajectory(envs, random_actions(envs, 100)))
        envs.close()
    other = [k for k, (one, two) in enumerate(zip(*found, strict=True)) if not np.array_equal(one, two)]
    text = f"other numbers from step {other[0] + 1} on" if other else "the same numbers"
    return [Row(f"{task}: 512 envs, 100 steps, the same seed twice", text, "", float(not other), 0.0)]


def agree(task: str) -> list[Row]:
    gpu, cpu = make(task, 256), make(task, 256, "kernel")
    first = np.abs(gpu.reset(seed=3)[0].cpu().numpy() - cpu.reset(seed=3)[0]).max()
    far = []
    for action in random_actions(gpu, 10):
        ours, theirs = gpu.step(torch.from_numpy(action).cuda())[0].cpu().numpy(), cpu.step(action)[0]
        far.append(float(np.median(np.abs(ours - theirs).max(axis=1))))
    text = f"first {first:.1g}; step 1 {far[0]:.1g}; step 10 {far[9]:.1g}"
    return [
        Row(f"{task}: observations, largest difference in an env, median of 256", text, "MuJoCo on the CPU", 0.0, 0.0)
    ]


def training(task: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        result = rookery.train(
            f"{task}-v5", backend="cuda", device="cuda", seed=1, runs_dir=folder, evaluation={"every": 10**9}
        )
        agent = result.agent
    reached = (
        f"return {result.evaluation:,.0f}, and {played(agent, task):,.0f} on the CPU, after {result.seconds:.0f} s"
    )
    title = f"rookery train {task}-v5 on the GPU, {result.total_steps:,} steps: steps/s"
    return [Row(title, f"{result.steps_per_second:,.0f}", reached, result.steps_per_second, 0.0, "/s")]


class Clock(rookery.Callback):
    """Seconds of a run without its evaluations, until it ends or reaches a return."""

    def __init__(self, level: float) -> None:
        self.level, self.seconds, self.reached = level, 0.0, -math.inf
        self._since = time.perf_counter()

    def on_update(self, run: Any, metrics: Any) -> None:
        now = time.perf_counter()
        self.seconds, self._since = self.seconds + now - self._since, now

    def on_evaluation(self, run: Any, metrics: Any) -> None:
        self.reached, self._since = metrics["eval/return"], time.perf_counter()
        said(f"{run.step:,} steps, {self.seconds:.1f} s: {self.reached:.0f}")
        if self.reached >= self.level:
            run.stop("reached")


def raced(task: str, learner: str, seed: int, level: float = math.inf) -> Clock:
    """One run by its recipe; PPO's ends with its only evaluation."""
    clock, every = Clock(level), 10**9 if learner == "ppo" else EVERY
    with tempfile.TemporaryDirectory() as folder:
        rookery.train(
            f"{task}-v5", learner=learner, backend="cuda", device="cuda", seed=seed, runs_dir=folder,
            callbacks=[clock], evaluation={"every": every}, checkpoints={"every": 10**9},
            monitor={"panel": False, "plot": False, "tensorboard": False},
        )  # fmt: skip
    return clock


def race(task: str, seeds: int) -> list[Row]:
    """XQC's time to what PPO reaches in the end; endless if it does not come there."""
    theirs = [raced(task, "ppo", seed) for seed in range(1, seeds + 1)]
    level = float(np.median([clock.reached for clock in theirs]))
    ours = [raced(task, "xqc", seed, level) for seed in range(1, seeds + 1)]
    slow, fast = (float(np.median([clock.seconds for clock in clocks])) for clocks in (theirs, ours))
    missed = sum(clock.reached < level for clock in ours)
    ratio = fast / slow if 2 * missed < seeds else math.inf
    text = f"XQC {fast:.0f} s, {seeds - missed} of {seeds} reached it"
    return [Row(f"{task} to {level:,.0f}: seconds of XQC / PPO", text, f"PPO {slow:.0f} s", ratio, 0.7, "x", most=True)]


def played(agent: Any, task: str) -> float:
    """The mean return of 20 episodes on the CPU."""
    envs = make(task, 20, "kernel")
    observations, total, going = envs.reset(seed=5)[0], np.zeros(20), np.ones(20, bool)
    while going.any():
        observations, rewards, terminated, truncated, _ = envs.step(agent.act(observations))
        total += rewards * going
        going &= ~(terminated | truncated)
    return float(total.mean())


PARTS: dict[str, Any] = {"speed": speed, "repeat": repeat, "agree": agree, "training": training, "race": race}


def main() -> int:
    parser = parser_for(__doc__, PARTS)
    parser.add_argument("--tasks", nargs="+", default=TASKS, help="tasks of Gymnasium, without -v5")
    parser.add_argument("--seeds", type=int, default=1, help="of a race (default: %(default)s)")
    options = parser.parse_args()
    rows = {
        f"{name} {task}": partial(PARTS[name], task, **({"seeds": options.seeds} if name == "race" else {}))
        for name in PARTS
        if not options.only or name in options.only
        for task in options.tasks
    }
    return report(measured(rows, None, options.json), "MuJoCo worlds on a GPU", options.json)


if __name__ == "__main__":
    sys.exit(main())
