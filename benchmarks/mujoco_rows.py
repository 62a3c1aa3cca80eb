"""One function per row of the MuJoCo worlds' table."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial

import gymnasium as gym
import numpy as np
import psutil
from gymnasium.vector import AsyncVectorEnv

import rookery
from engine_rows import Row
from measure import SLICE, in_turns, rate, stepper
from mujoco_limit import LoneThreads
from mujoco_rounds import RookeryRounds
from mujoco_scaling import order_rows, scaling_rows

TASKS = ("HalfCheetah", "Hopper", "Ant", "Humanoid")
FLAT = 2.0  # MB: what memory may grow by


def speed_rows(rounds: int, quick: bool) -> list[Row]:
    """Against EnvPool, whose envs call MuJoCo from C++, and against threads that call `mj_step` alone: by the clock and
    by processor time, which depends less on other programs."""
    return [row for name, n in _cases(quick) for row in _speeds(name, n, rounds)]


def async_rows(rounds: int, quick: bool) -> list[Row]:
    """Against Gymnasium's AsyncVectorEnv, which has a process for each env."""
    rows = []
    for name, n in _cases(quick):
        envs, workers = rookery.make_vec(f"rookery/{name}-v5", n), AsyncVectorEnv([partial(gym.make, f"{name}-v5")] * n)
        found = in_turns({"ours": stepper(envs, n), "async": stepper(workers, n)}, rounds)
        envs.close(), workers.close()
        rows.append(best_row(f"{name} n={n}, steps/s over AsyncVectorEnv", found["ours"], found["async"], 8))
    return rows


def _cases(quick: bool) -> list[tuple[str, int]]:
    return [("HalfCheetah", 8)] if quick else [(name, n) for name in TASKS for n in (8, 64)]


def best_row(measure: str, ours: np.ndarray, theirs: np.ndarray, least: float) -> Row:
    """The best turn of each side: the one that other programs disturbed least."""
    return Row(measure, f"{ours.max():,.0f}/s", f"{theirs.max():,.0f}/s", float(ours.max() / theirs.max()), least)


def _speeds(name: str, n: int, rounds: int) -> list[Row]:
    envs, lone = rookery.make_vec(f"rookery/{name}-v5", n), LoneThreads(name, len(os.sched_getaffinity(0)))
    sides = {"ours": stepper(envs, n), "lone": lone.measure, **_envpool(name, n)}
    found = in_turns({side: partial(_two_rates, measure) for side, measure in sides.items()}, rounds)
    envs.close()
    rows = []
    for k, unit in enumerate(("steps/s", "steps per second of processor time")):
        ours, lone_rates = found["ours"][:, k], found["lone"][:, k]
        if "envpool" in found:
            theirs = found["envpool"][:, k]
            label = f"{name} n={n}, {unit} over EnvPool (mj_step alone: {lone_rates.max() / theirs.max():.2f}x)"
            rows.append(best_row(label, ours, theirs, 1.7))
        rows.append(best_row(f"{name} n={n}, {unit}, of threads that call mj_step alone", ours, lone_rates, 0.9))
    return rows


def _two_rates(measure: Callable[[], float]) -> tuple[float, float]:
    """Steps per second of the clock, and of the time of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    steps_per_second = measure()
    return steps_per_second, steps_per_second * (time.perf_counter() - wall) / (time.process_time() - cpu)


def _envpool(name: str, n: int) -> dict[str, Callable[[], float]]:
    try:
        import envpool
    except ImportError as error:
        print(f"EnvPool cannot be imported ({error}; pip install envpool): its rows are skipped", file=sys.stderr)
        return {}
    envs = envpool.make(f"{name}-v5", env_type="gymnasium", num_envs=n, num_threads=len(os.sched_getaffinity(0)))
    envs.reset()
    low, high = envs.action_space.low, envs.action_space.high
    actions = np.random.default_rng(0).uniform(low, high, (64, n, *low.shape)).astype(envs.action_space.dtype)
    state = {"k": 0}

    def step() -> None:
        state["k"] += 1
        envs.step(actions[state["k"] % 64])

    return {"envpool": lambda: rate(step, n)}


def reset_rows(rounds: int, quick: bool) -> list[Row]:
    """A million resets: what the process has more of in the end than after the first tenth."""
    envs = rookery.make_vec("rookery/Hopper-v5", 256)
    process, batches = psutil.Process(), (50_000 if quick else 1_000_000) // 256

    def reset_often(times: int) -> None:
        for _ in range(times):
            envs.reset()

    envs.reset(seed=1)
    reset_often(batches // 10)
    before = process.memory_info().rss
    reset_often(batches - batches // 10)
    grown = (process.memory_info().rss - before) / 2**20
    envs.close()
    return [Row(f"Hopper, {batches * 256:,} resets: growth of memory", "", "", grown, FLAT, " MB", most=True)]


def between_rows(rounds: int, quick: bool) -> list[Row]:
    """What Python takes between two batches of 8 envs, in which all threads wait: infos, copies, checks. The median of
    all batches, which other programs disturb little."""
    rows = []
    for name in TASKS[: 1 if quick else None]:
        envs = rookery.make_vec(f"rookery/{name}-v5", 8, backend="kernel", workers=len(os.sched_getaffinity(0)))
        side = RookeryRounds(envs)
        turns = [side.measure(SLICE)[0] for _ in range(rounds)]
        envs.close()
        between = np.median(np.concatenate([turn.starts[1:] - turn.ends[:-1] for turn in turns])) / 1e3
        whole = np.median(np.concatenate([np.diff(turn.starts) for turn in turns])) / 1e3
        label = f"{name} n=8, time between two batches, of a step"
        rows.append(
            Row(label, f"{between:,.0f} us", f"{whole:,.0f} us", float(100 * between / whole), 10, " %", most=True)
        )
    return rows


ROWS = {
    "speed": speed_rows, "between": between_rows, "order": order_rows, "async": async_rows, "resets": reset_rows,
    "scaling": scaling_rows,
}  # fmt: skip
