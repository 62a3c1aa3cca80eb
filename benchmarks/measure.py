"""Measuring two or more things in turns, in short slices."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SLICE = 0.25  # seconds


def rate(step: Callable[[], Any], count: int, seconds: float = SLICE) -> float:
    """Env steps per second of a call that makes `count` of them."""
    for _ in range(3):
        step()
    start, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        step()
        calls += 1
    return calls * count / elapsed


def in_turns(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, np.ndarray]:
    """Every side measured once per round."""
    results: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            results[name].append(measure())
    return {name: np.array(values) for name, values in results.items()}


def stepper(envs: Any, num_envs: int, seconds: float = SLICE, seed: int = 0) -> Callable[[], float]:
    """Steps a vector env (Gymnasium's or SB3's) with actions drawn beforehand."""
    envs.reset()
    single = getattr(envs, "single_action_space", envs.action_space)
    single.seed(seed)
    actions = [np.array([single.sample() for _ in range(num_envs)]) for _ in range(64)]
    state = {"k": 0}

    def step() -> None:
        state["k"] += 1
        envs.step(actions[state["k"] % 64])

    return lambda: rate(step, num_envs, seconds)


class Unconnected:
    """Processes that each step one env of their own and talk to nobody: what the machine could do at best."""

    def __init__(self, maker: Callable[[], Any], count: int = 2) -> None:
        context = multiprocessing.get_context("fork")
        self._pipes, self._processes = [], []
        cores = sorted(os.sched_getaffinity(0))
        for k in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_lone, args=(theirs, maker, cores[k % len(cores)]), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def measure(self, seconds: float = SLICE) -> float:
        """The sum of their rates, all running at the same time."""
        for pipe in self._pipes:
            pipe.send(seconds)
        return sum(pipe.recv() for pipe in self._pipes)

    def close(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(None)
            process.join()
            pipe.close()


def _lone(pipe: Any, maker: Callable[[], Any], core: int) -> None:
    os.sched_setaffinity(0, {core})
    env = maker()
    env.reset(seed=1)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(64)]
    while (seconds := pipe.recv()) is not None:
        start, steps = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - start) < seconds:
            for action in actions:
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
                if time.perf_counter() - start > seconds:
                    break
                steps += 1
        pipe.send(steps / elapsed)
