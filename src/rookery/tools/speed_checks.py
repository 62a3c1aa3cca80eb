"""The speed of a world that is checked: of one env, and of a kernel world's batch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from rookery import printing
from rookery.engine.autotune import legal, legal_batch
from rookery.engine.make_vec import make_vec
from rookery.kernel.world import KernelWorld
from rookery.tools.guarded import Watch
from rookery.tools.trajectory import ReportProblem, ReturnChecker
from rookery.tools.world_report import WorldReport

SPEED_SECONDS = 0.3  # in steps and resets
SPEED_WALL_SECONDS = 2.0  # with what is done between them
CHECKED_STEPS = 1000  # whose values are checked too
BATCH_SECONDS = 0.3
TINY_STEP = 30e-6  # seconds
SLOW_RESET = 200  # steps


def measure_env(
    env: gym.Env, actions: list[Any], ended: bool, watch: Watch, note: ReportProblem, report: WorldReport
) -> None:
    """Step one env for a while; `ended` says whether an episode has ended before."""
    checker, end = ReturnChecker(env, note), time.perf_counter() + SPEED_WALL_SECONDS
    watch.now("reset() while its speed was measured")
    took, last = _timed(env.reset)
    steps, in_resets, resets, count = 0.0, took, [took], 0
    while (steps + in_resets < SPEED_SECONDS and time.perf_counter() < end) or count == 0:
        action = legal(env.action_space, actions[count % len(actions)], last)
        where = f"step() number {count} while its speed was measured"
        watch.now(where)
        start = time.perf_counter()
        last = env.step(action)
        steps += time.perf_counter() - start
        if count < CHECKED_STEPS:
            checker.step(where, last)
        count += 1
        if last[2] or last[3]:
            watch.now(f"reset() number {len(resets)} while its speed was measured")
            took, last = _timed(env.reset)
            in_resets += took
            resets.append(took)
    report.reset_seconds = statistics.median(resets)
    report.steps_per_second = count / (steps + in_resets - resets[0])
    _advise(steps / count, report)
    if not ended and len(resets) == 1:
        report.advice.append(
            f"no episode ended in a trial of {max(count, len(actions)):,} steps. Training reports the returns of "
            "episodes that ended: return terminated or truncated at some time"
        )


def measure_batch(world: KernelWorld, seed: int, watch: Watch, report: WorldReport) -> None:
    """Step as many envs of a kernel world as `make_vec` and `train` make by default."""
    watch.now("compiling the world for a batch", slow=True)
    envs = make_vec(world, backend="kernel")
    try:
        envs.single_action_space.seed(seed)
        last: Any = envs.reset(seed=seed)
        actions = [envs.single_action_space.sample() for _ in range(envs.num_envs)]
        took, count, end = 0.0, 0, time.perf_counter() + SPEED_WALL_SECONDS
        while (took < BATCH_SECONDS and time.perf_counter() < end) or count == 0:
            watch.now(f"step {count} of a batch of {envs.num_envs} envs")
            chosen = np.array(legal_batch(envs.single_action_space, actions, last))
            start = time.perf_counter()
            last = envs.step(chosen)
            took += time.perf_counter() - start
            count += 1
    finally:
        envs.close()
    report.batch_envs, report.batch_steps_per_second = envs.num_envs, count * envs.num_envs / took


def _advise(step: float, report: WorldReport) -> None:
    reset = report.reset_seconds
    if step < TINY_STEP:
        report.advice.append(f"a step takes only {printing.duration(step)}: give each worker many envs")
    if reset > SLOW_RESET * step:
        report.advice.append(
            f"a reset takes as long as {reset / step:,.0f} steps: move what does not change to __init__"
        )


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
