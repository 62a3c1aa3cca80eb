"""Measures a world: one worker process builds an env, steps it with random actions, reports the cost, and exits."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from rookery.engine.action_masks import has_masks, legal
from rookery.engine.env_factory import EnvFactory
from rookery.engine.failure import Failed
from rookery.engine.machine import process_usage
from rookery.engine.worker_envs import EnvDescription, WorkerEnvs
from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout, DeferInterrupt
from rookery.engine.workers.launcher import new_launcher
from rookery.engine.workers.worker_handle import WorkerHandle, stop_workers
from rookery.errors import StepTimeout, WorkerDied

PROBE_SECONDS = 0.4
MIN_STEPS = 3
START_SECONDS = 30.0  # how long building an env may take, where steps have a timeout
TIMED_STEPS = 8  # at least this many steps and resets are timed


@dataclass(frozen=True)
class Probe:
    """What one env of a world costs."""

    step_seconds: float  # without the time in which other processes had the core
    cpu_share: float  # of a step's time, how much is spent on the CPU rather than waiting
    reset_seconds: float
    build_seconds: float
    memory: int  # bytes that one more env takes
    process_memory: int  # bytes of a worker process with one env
    description: EnvDescription


def probe(
    source: EnvFactory,
    start_method: str | None = None,
    seconds: float = PROBE_SECONDS,
    step_timeout: float | None = None,
) -> Probe:
    """Measure `source` in a process of its own; with `seconds=0`, build an env for its description and step nothing.
    Raises what the env raises; StepTimeout if, with a `step_timeout`, it takes longer than TIMED_STEPS steps may."""
    timeout = None if step_timeout is None else START_SECONDS + TIMED_STEPS * step_timeout
    launcher = new_launcher(start_method or "spawn")
    handle: WorkerHandle | None = None
    try:
        with DeferInterrupt():  # else a process could be started and never stopped
            handle = WorkerHandle(0, launcher, launcher.start())
        handle.response(handle.request("start", (source, True, None, [], 0.0), timeout=timeout), timeout)
        return handle.response(handle.request("run", (_measure, seconds)), timeout)
    except ChannelTimeout:
        raise StepTimeout(
            f"{source.name} could not be measured in {timeout:g} s (step_timeout={step_timeout:g})"
        ) from None
    except Failed as failed:
        raise failed.failure.exception() from None
    except ChannelClosed:
        status = handle.process.wait() if handle else None
        raise WorkerDied(f"the process that measured {source.name} died (exit status {status})") from None
    finally:
        if handle is not None:
            stop_workers([handle], timeout=2.0)
        launcher.close()


def _measure(envs: WorkerEnvs, seconds: float) -> Probe:
    """Runs in the worker."""
    before = time.perf_counter()
    description = envs.build([0])
    build_seconds = time.perf_counter() - before
    process_memory = process_usage(os.getpid())["memory"]
    if not seconds:
        return Probe(0.0, 1.0, 0.0, build_seconds, 0, process_memory, description)
    env = envs.envs[0]
    actions = _actions(env, 64)
    with envs.attribute_to(0, "reset"):
        first_reset, _ = _timed(lambda: env.reset(seed=1, options=None))
        second_reset, last = _timed(lambda: env.reset(seed=None, options=None))  # as the engine does
    masked = has_masks(env.action_space, last)
    wall, cpu, queued, steps, resets = 0.0, 0.0, 0.0, 0, 0.0
    while steps < MIN_STEPS or wall + resets < seconds:
        start, (start_cpu, start_queued) = time.perf_counter(), _cpu_seconds()
        ended = False
        for action in actions:
            with envs.attribute_to(0, "step"):
                last = env.step(legal(env.action_space, action, last) if masked else action)
                _, _, terminated, truncated, _ = last
            steps += 1
            ended = bool(terminated or truncated)
            if ended or time.perf_counter() - start > seconds:
                break
        wall += time.perf_counter() - start
        end_cpu, end_queued = _cpu_seconds()
        cpu, queued = cpu + end_cpu - start_cpu, queued + end_queued - start_queued
        if ended:
            took, last = _timed(lambda: env.reset(seed=None, options=None))
            resets += took
    memory = _second_env_memory(envs) if build_seconds < 2.0 else process_memory
    own = max(wall - queued, cpu)
    share = min(1.0, cpu / own) if own > 0 else 1.0
    reset_seconds = min(first_reset, second_reset)
    return Probe(own / steps, share, reset_seconds, build_seconds, memory, process_memory, description)


def _cpu_seconds() -> tuple[float, float]:
    """CPU time used, and time spent ready to run while other processes had the cores: on a busy machine that can be
    most of the time, and says nothing about the env."""
    try:
        with open("/proc/self/schedstat") as file:
            used, queued, _ = (int(word) for word in file.read().split())
        return used * 1e-9, queued * 1e-9
    except (OSError, ValueError):
        return time.process_time(), 0.0


def _second_env_memory(envs: WorkerEnvs) -> int:
    """The memory of a first env includes imports; what a second one adds is the memory of an env."""
    before = process_usage(os.getpid())["memory"]
    envs.build([0 if not envs._source.endless else 1])
    return max(0, process_usage(os.getpid())["memory"] - before)


def _actions(env: Any, count: int) -> list[Any]:
    env.action_space.seed(1)
    return [env.action_space.sample() for _ in range(count)]


def _timed(call: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
