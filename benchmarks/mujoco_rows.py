"""One function per row of the MuJoCo worlds' table."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import psutil
from gymnasium.vector import AsyncVectorEnv

import rookery
from engine_rows import Row, ratio_row
from measure import SLICE, in_turns, rate, stepper

TASKS = ("HalfCheetah", "Hopper", "Ant", "Humanoid")
FLAT = 2.0  # MB: what memory may grow by


def speed_rows(rounds: int, quick: bool) -> list[Row]:
    """Against EnvPool on two threads, whose envs call MuJoCo from C++, and Gymnasium's AsyncVectorEnv."""
    rows = []
    for name in TASKS[:1] if quick else TASKS:
        for n in (8,) if quick else (8, 64):
            rows += _speeds(name, n, rounds)
    return rows


def _speeds(name: str, n: int, rounds: int) -> list[Row]:
    envs = rookery.make_vec(f"rookery/{name}-v5", n)
    workers = AsyncVectorEnv([partial(gym.make, f"{name}-v5")] * n)
    sides = {"ours": stepper(envs, n), "async": stepper(workers, n), **_envpool(name, n)}
    found = in_turns(sides, rounds)
    envs.close(), workers.close()
    label = f"{name} n={n}, steps/s over"
    rows = [ratio_row(f"{label} AsyncVectorEnv", found["ours"], found["async"], 8)]
    if "envpool" in found:
        rows.append(ratio_row(f"{label} EnvPool", found["ours"], found["envpool"], 1.7))
    return rows


def _envpool(name: str, n: int) -> dict[str, Callable[[], float]]:
    try:
        import envpool
    except ImportError as error:
        print(f"EnvPool cannot be imported ({error}; pip install envpool): its rows are left out", file=sys.stderr)
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


def cost_rows(rounds: int, quick: bool) -> list[Row]:
    """Steps per second of processor time, beside EnvPool's: other programs on the machine change it little."""
    rows = []
    for name in TASKS[:1] if quick else TASKS:
        for n in (8,) if quick else (8, 64):
            envs, theirs = rookery.make_vec(f"rookery/{name}-v5", n), _envpool(name, n)
            sides = {side: partial(_per_cpu_second, measure) for side, measure in theirs.items()}
            found = in_turns({"ours": partial(_per_cpu_second, stepper(envs, n)), **sides}, rounds)
            envs.close()
            if theirs:
                label = f"{name} n={n}, steps per second of processor time over EnvPool"
                rows.append(ratio_row(label, found["ours"], found["envpool"], 1))
    return rows


def _per_cpu_second(measure: Callable[[], float]) -> float:
    wall, cpu = time.perf_counter(), time.process_time()
    steps = measure() * (time.perf_counter() - wall)
    return steps / (time.process_time() - cpu)


class LoneThreads:
    """Threads that each call `mj_step` on data of their own, with new controls for each env step, and nothing else: the
    most that this machine can do. Each does what an env does: as many calls for a step, and a reset after 1,000."""

    def __init__(self, world: Any, count: int) -> None:
        self._world, self._count = world, count

    def measure(self, seconds: float = SLICE) -> float:
        """Env steps per second of all of them together."""
        made = [0.0] * self._count
        threads = [threading.Thread(target=self._work, args=(made, k, seconds)) for k in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(made)

    def _work(self, made: list[float], place: int, seconds: float) -> None:
        model, steps = self._world.model, 0
        data, (low, high) = mujoco.MjData(model), model.actuator_ctrlrange.T
        controls = np.random.default_rng(place).uniform(low, high, (64, model.nu))
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            for control in controls:
                data.ctrl[:] = control
                mujoco.mj_step(model, data, nstep=self._world.frame_skip)  # releases the GIL
            steps += len(controls)
            if steps % 1024 == 0:
                mujoco.mj_resetData(model, data)
        made[place] = steps / elapsed


def limit_rows(rounds: int, quick: bool) -> list[Row]:
    """Against threads that know nothing of each other; where episodes have a fixed length, so that states are alike."""
    envs = rookery.make_vec("rookery/HalfCheetah-v5", 64)
    lone = LoneThreads(envs.world, len(os.sched_getaffinity(0)))
    found = in_turns({"ours": stepper(envs, 64), "lone": lone.measure}, rounds)
    envs.close()
    return [ratio_row("HalfCheetah n=64, of threads that call mj_step alone", found["ours"], found["lone"], 0.9)]


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


def scaling_rows(rounds: int, quick: bool) -> list[Row]:
    """64 humanoids on all cores over one thread. Beside it, what lone threads gain: caches, clocks and memory allow no
    more. For a machine of 16 cores."""
    cores = len(os.sched_getaffinity(0))
    one, every = (rookery.make_vec("rookery/Humanoid-v5", 64, backend="kernel", workers=k) for k in (1, cores))
    lone = {f"lone {k}": LoneThreads(one.world, k).measure for k in (1, cores)}
    found = in_turns({"one": stepper(one, 64), "every": stepper(every, 64), **lone}, rounds)
    limit = np.median(found[f"lone {cores}"] / found["lone 1"])
    one.close(), every.close()
    label = f"Humanoid n=64, {cores} threads over one (threads that call mj_step alone: {limit:.1f}x)"
    return [ratio_row(label, found["every"], found["one"], min(12 / 16 * cores, 0.9 * limit))]


ROWS = {"speed": speed_rows, "cost": cost_rows, "limit": limit_rows, "resets": reset_rows, "scaling": scaling_rows}
