"""One function per row of the engine's table."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import rookery
from engine_worlds import Busy, Frames, Waiting
from measure import Unconnected, in_turns, rate, stepper


@dataclass
class Row:
    """A figure and what it must reach."""

    measure: str
    ours: str
    theirs: str
    value: float
    least: float
    unit: str = "x"
    most: bool = False  # it is the most that the figure may be

    @property
    def passed(self) -> bool:
        return self.value <= self.least if self.most else self.value >= self.least

    @property
    def figure(self) -> str:
        return f"{self.value:.2f}{self.unit}"

    @property
    def target(self) -> str:
        return f"{'<=' if self.most else '>='} {self.least:g}{self.unit}"

    def as_dict(self) -> dict[str, Any]:
        return {"measure": self.measure, "ours": self.ours, "theirs": self.theirs, "value": self.value,
                "figure": self.figure, "target": self.target, "passed": self.passed}  # fmt: skip


def ratio_row(measure: str, ours: np.ndarray, theirs: np.ndarray, least: float, unit: str = "x") -> Row:
    """The median of the ratios of neighbouring slices."""
    figures = (f"{np.median(side):,.0f}/s" for side in (ours, theirs))
    return Row(measure, *figures, value=float(np.median(ours / theirs)), least=least, unit=unit)


def _rookery(world: Any, num_envs: int, **options: Any) -> Any:
    return rookery.make_vec(world, num_envs, **options)


def cartpole_8(rounds: int) -> list[Row]:
    """The process backend, and what auto chooses, against the vector envs of Gymnasium and SB3."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    makers = [lambda: gym.make("CartPole-v1")] * 8
    sides = {
        "process": _rookery("CartPole-v1", 8, backend="process", workers=2),
        "async": AsyncVectorEnv(makers),
        "subproc": SubprocVecEnv(makers),
        "auto": _rookery("CartPole-v1", 8),
        "sync": SyncVectorEnv(makers),
        "dummy": DummyVecEnv(makers),
    }
    rates = _measure(sides, 8, rounds)
    best = np.maximum(rates["sync"], rates["dummy"])
    return [
        ratio_row("CartPole-v1, 8 envs: process over AsyncVectorEnv", rates["process"], rates["async"], 6),
        ratio_row("CartPole-v1, 8 envs: process over SubprocVecEnv", rates["process"], rates["subproc"], 6),
        ratio_row("CartPole-v1, 8 envs: auto over the better of Sync and Dummy", rates["auto"], best, 1.0),
    ]


def cartpole_64(rounds: int) -> list[Row]:
    """Many cheap envs."""
    makers = [lambda: gym.make("CartPole-v1")] * 64
    sides = {
        "process": _rookery("CartPole-v1", 64, backend="process", workers=2),
        "async": AsyncVectorEnv(makers),
        "sync": SyncVectorEnv(makers),
    }
    rates = _measure(sides, 64, rounds)
    return [
        ratio_row("CartPole-v1, 64 envs: process over AsyncVectorEnv", rates["process"], rates["async"], 10),
        ratio_row("CartPole-v1, 64 envs: process over SyncVectorEnv", rates["process"], rates["sync"], 1.3),
    ]


def busy(rounds: int) -> list[Row]:
    """Envs that burn 100 us and 1 ms a step."""
    rows = []
    for seconds, name, least in ((1e-4, "100 us", 0.88), (1e-3, "1 ms", 0.92)):
        maker = partial(Busy, seconds)
        peers = {"async": AsyncVectorEnv([maker] * 8)} if seconds == 1e-4 else {}
        rates = _measure({"process": _rookery(maker, 8, backend="process", workers=2), **peers}, 8, rounds, maker)
        title = f"an env that burns {name}, 8 envs: process over"
        rows.append(ratio_row(f"{title} two unconnected processes", rates["process"], rates["ideal"], least))
        if peers:
            rows.append(ratio_row(f"{title} AsyncVectorEnv", rates["process"], rates["async"], 3))
    return rows


def halfcheetah(rounds: int) -> list[Row]:
    """A physics engine in C, with a handful of numbers in every info."""
    maker = partial(gym.make, "HalfCheetah-v5")
    sides = {"process": _rookery("HalfCheetah-v5", 8, backend="process", workers=2)}
    rates = _measure(sides, 8, rounds, maker)
    return [ratio_row("HalfCheetah-v5, 8 envs: process over two unconnected", rates["process"], rates["ideal"], 0.88)]


def frames(rounds: int) -> list[Row]:
    """Large observations."""
    sides = {"process": _rookery(Frames, 8, backend="process", workers=2), "async": AsyncVectorEnv([Frames] * 8)}
    rates = _measure(sides, 8, rounds)
    return [ratio_row("84x84x4 bytes, 8 envs: process over AsyncVectorEnv", rates["process"], rates["async"], 3)]


def overlap(rounds: int) -> list[Row]:
    """A policy that only waits, as long in all as the envs take: two groups over one."""
    envs_take = 4 * 1e-3  # 8 envs of 1 ms on 2 workers
    one = _rookery(partial(Busy, 1e-3), 8, backend="process", workers=2)
    two = _rookery(partial(Busy, 1e-3), 8, backend="process", workers=2, groups=2)
    actions = np.zeros(8, np.int64)
    one.reset(seed=1), two.reset(seed=1)
    first, second = two.groups
    first.send(actions[:4])

    def policy(count: int) -> None:
        time.sleep(envs_take * count / 8)

    def lock_step() -> None:
        policy(8)
        one.step(actions)

    def turns() -> None:
        policy(4)
        second.send(actions[:4])
        first.recv()
        policy(4)
        first.send(actions[:4])
        second.recv()

    sides = {"two": lambda: rate(turns, 8, 0.5), "one": lambda: rate(lock_step, 8, 0.5)}
    rates = in_turns(sides, rounds)
    first.recv()
    one.close(), two.close()
    return [ratio_row("a policy that waits as long as the envs: two groups over one", rates["two"], rates["one"], 1.7)]


def one_slow(rounds: int) -> list[Row]:
    """16 envs that wait 2 ms, one of them 20 ms: taking the first 8 over waiting for all."""
    makers = [partial(Waiting, 0.02 if k == 5 else 0.002) for k in range(16)]
    lock = _rookery(makers, None, backend="process", workers=16)
    free = _rookery(makers, None, backend="process", workers=16, batch_size=8)
    actions = np.zeros(16, np.int64)
    lock.reset(seed=1), free.reset(seed=1)
    free.send(actions)

    def first_eight() -> None:
        *_, infos = free.recv()
        free.send(actions[:8], infos["env_id"])

    sides = {"free": lambda: rate(first_eight, 8, 0.5), "lock": lambda: rate(lambda: lock.step(actions), 16, 0.5)}
    rates = in_turns(sides, rounds)
    lock.close(), free.close()
    return [ratio_row("16 envs waiting 2 ms, one 20 ms: batch_size=8 over lock-step", rates["free"], rates["lock"], 3)]


def idle(_: int) -> list[Row]:
    """An engine that nobody uses, with 8 workers."""
    envs = _rookery("CartPole-v1", 8, backend="process", workers=8)
    envs.reset(seed=1)
    envs.step(np.zeros(8, np.int64))
    time.sleep(0.2)
    before, start = _cpu(envs), time.perf_counter()
    time.sleep(3.0)
    share = 100 * (_cpu(envs) - before) / (time.perf_counter() - start)
    envs.close()
    return [Row("an idle engine's share of one core", f"{share:.2f} %", "", share, 2, " %", most=True)]


def _cpu(envs: Any) -> float:
    return time.process_time() + sum(row["cpu_seconds"] for row in envs.stats())


def faults(_: int) -> list[Row]:
    """Every fault in the list, repeated: the tests under tests/faults, slow ones included."""
    folder = Path(__file__).parent.parent / "tests" / "faults"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent.parent, check=False)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-100:]
    return [Row("every fault in the list (tests/faults)", last, "", float(done.returncode == 0), 1, "")]


def _measure(sides: dict[str, Any], num_envs: int, rounds: int, lone: Callable[[], Any] | None = None) -> dict:
    """Rates of vector envs in turns; with `lone`, also of two unconnected processes, as "ideal"."""
    measures = {name: stepper(envs, num_envs) for name, envs in sides.items()}
    ideal = Unconnected(lone) if lone else None
    if ideal:
        measures["ideal"] = ideal.measure
    rates = in_turns(measures, rounds)
    for envs in [*sides.values(), *([ideal] if ideal else [])]:
        envs.close()
    return rates


ROWS: dict[str, Callable[[int], list[Row]]] = {
    "cartpole_8": cartpole_8,
    "cartpole_64": cartpole_64,
    "busy": busy,
    "halfcheetah": halfcheetah,
    "frames": frames,
    "overlap": overlap,
    "one_slow": one_slow,
    "idle": idle,
    "faults": faults,
}
