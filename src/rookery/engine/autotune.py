"""Measures a world, and chooses the backend and the number of envs and workers.

One worker process builds an env, steps it with random actions, reports the cost of a step, and exits. From that, the
cores and the memory follow the choices.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.console import size_text
from rookery.engine.cost_memory import Cost, Probe, recall, remember, useful_workers
from rookery.engine.env_factory import EnvFactory
from rookery.engine.machine import available_memory, process_usage, stolen_seconds, usable_cores
from rookery.engine.step_report import Failed
from rookery.engine.worker_envs import EnvDescription, WorkerEnvs
from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout, DeferInterrupt
from rookery.engine.workers.launcher import new_launcher
from rookery.engine.workers.worker_handle import WorkerHandle, stop_workers
from rookery.errors import StepTimeout, WorkerDied

PROBE_SECONDS = 0.4
MIN_STEPS = 3
START_SECONDS = 30.0  # how long building an env may take, where steps have a timeout
DISTURBED = 0.2  # of the time in which others had the cores: the measurement is used, and not remembered
TIMED_STEPS = 8  # at least this many steps and resets are timed


def probe(
    source: EnvFactory,
    start_method: str | None = None,
    seconds: float = PROBE_SECONDS,
    step_timeout: float | None = None,
) -> Probe:
    """Measure `source` in a process of its own; with `seconds=0`, build an env for its description and step nothing.
    Raises what the env raises; StepTimeout if, with a `step_timeout`, it takes longer than TIMED_STEPS steps may."""
    with worker_with(source, start_method, step_timeout) as call:
        return call(_measure, seconds)


@contextmanager
def worker_with(
    source: EnvFactory, start_method: str | None = None, step_timeout: float | None = None
) -> Iterator[Callable[..., Any]]:
    """A worker process for measurements of `source`; the yielded function calls another one there, with the worker's
    envs and further arguments."""
    timeout = None if step_timeout is None else START_SECONDS + TIMED_STEPS * step_timeout
    launcher = new_launcher(start_method)
    handle: WorkerHandle | None = None
    try:
        with DeferInterrupt():  # else a process could be started and never stopped
            handle = worker = WorkerHandle(0, launcher, launcher.start())
        worker.response(worker.request("start", (source, True, None, [], 0.0), timeout=timeout), timeout)
        yield lambda *call: worker.response(worker.request("run", call), timeout)
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


def cost_of(source: EnvFactory, start_method: str | None = None, step_timeout: float | None = None) -> Cost:
    """What an env costs: as it was measured before on this machine, else measured now."""
    return recall(source) or measure(source, start_method, step_timeout)


def measure(source: EnvFactory, start_method: str | None = None, step_timeout: float | None = None) -> Probe:
    """Measure it now, and remember that unless other programs wanted the cores in the meantime."""
    measured = probe(source, start_method, step_timeout=step_timeout)
    if measured.disturbed_share < DISTURBED:
        remember(source, measured)
    return measured


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
        first_reset, _ = timed(lambda: env.reset(seed=1, options=None))
        second_reset, last = timed(lambda: env.reset(seed=None, options=None))  # as the engine does
    masked = has_masks(env.action_space, last)
    wall, cpu, queued, steps, resets = 0.0, 0.0, 0.0, 0, 0.0
    stolen = -stolen_seconds()
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
            took, last = timed(lambda: env.reset(seed=None, options=None))
            resets += took
    disturbed = (queued + stolen + stolen_seconds()) / (wall or 1.0)
    memory = process_memory
    if build_seconds < 2.0:
        memory, again = _second_env(envs)
        build_seconds = min(build_seconds, again)
    own = max(wall - queued, cpu)
    share = min(1.0, cpu / own) if own > 0 else 1.0
    reset_seconds = min(first_reset, second_reset)
    return Probe(own / steps, share, reset_seconds, build_seconds, memory, process_memory, description, disturbed)


def _cpu_seconds() -> tuple[float, float]:
    """CPU time used, and time spent ready to run while other processes had the cores: on a busy machine that can be
    most of the time, and says nothing about the env."""
    try:
        with open("/proc/self/schedstat") as file:
            used, queued, _ = (int(word) for word in file.read().split())
        return used * 1e-9, queued * 1e-9
    except (OSError, ValueError):
        return time.process_time(), 0.0


def _second_env(envs: WorkerEnvs) -> tuple[int, float]:
    """Memory and seconds that another env takes. Those of the first one include imports, which on a busy machine took
    so long that 32 envs seemed too many to measure."""
    before = process_usage(os.getpid())["memory"]
    seconds, _ = timed(lambda: envs.build([0 if not envs._source.endless else 1]))
    return max(0, process_usage(os.getpid())["memory"] - before), seconds


def _actions(env: Any, count: int) -> list[Any]:
    env.action_space.seed(1)
    return [env.action_space.sample() for _ in range(count)]


def timed(call: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


# --- choices ----------------------------------------------------------------------------------------------------------

# Measured on 2 cores with CartPole: what the engine adds to a step, and to a round of all workers.
ENV_OVERHEAD = 1.5e-6
SERIAL_ROUND = 8e-6
PROCESS_ROUND = 30e-6
POLICY_ROUND = 200e-6  # what a small torch policy adds to each round of a run, however few envs it acts for
MARGIN = 1.1  # expected speed-up from which on worker processes are used, as measurements are noisy
TARGET_ROUND = (
    400e-6  # seconds that a worker should step per round: long enough that starting and ending a round costs little
)
MAX_ENVS_PER_WORKER = 32
MEASURABLE = 4096  # bytes: memory is measured in pages
MEMORY_SHARE = 0.5  # of the free memory; the rest is for the learner


@dataclass(frozen=True)
class Choice:
    """What to use, and why in one line."""

    backend: str
    num_envs: int
    workers: int
    reason: str
    cost: Cost | None = None  # of one env, if that is known
    useful_envs: int | None = None  # as many envs as this machine can use well, whatever `at_most` says

    @property
    def description(self) -> EnvDescription | None:
        """About the env that was measured, if one was measured now."""
        return self.cost.description if isinstance(self.cost, Probe) else None


def choose(
    cost: Cost,
    num_envs: int | None = None,
    workers: int | None = None,
    backend: str = "auto",
    cores: int | None = None,
    memory: int | None = None,
    at_least: int = 1,
    at_most: int | None = None,
    policy_seconds: float = 0.0,
    rate: float | None = None,
) -> Choice:
    """Choose what the caller omitted; if that includes `num_envs`, between `at_least` and `at_most` envs.
    `policy_seconds` is what the caller does between two steps, which counts where it exceeds the steps themselves.
    `rate` is known if all of it was given, and measured."""
    cores = usable_cores() if cores is None else cores
    memory = available_memory() if memory is None else memory
    chosen = workers or useful_workers(cost, cores)
    useful = _useful_envs(cost, chosen, memory)
    count = num_envs or max(min(useful, at_most or useful), workers or 1, at_least)
    chosen = workers or max(1, min(chosen, count, int(MEMORY_SHARE * memory / max(1, cost.process_memory))))
    serial = serial_rate(cost, count, policy_seconds)
    process = process_rate(cost, count, chosen, cores, policy_seconds)
    step = f"a step takes {_time_text(cost.step_seconds)}"
    if backend == "auto":
        backend = "process" if process > MARGIN * serial and chosen > 0 else "serial"
    if backend == "serial":
        chosen = 1
        why = f"{step}, too short for several workers" if process <= MARGIN * serial else step
    else:
        why = step + ("" if cost.cpu_share > 0.5 else f", {1 - cost.cpu_share:.0%} of it waiting")
    expected = serial if backend == "serial" else process
    speed = f"about {expected:,.0f} steps/s" if rate is None else f"{rate:,.0f} steps/s, the fastest that was measured"
    memory_text = f", {size_text(cost.memory)} per env" if cost.memory >= MEASURABLE else ""
    reason = f"backend={backend!r}, num_envs={count}, workers={chosen}: {why}; {cores} cores{memory_text}; {speed}"
    return Choice(backend, count, chosen, reason, cost, useful)


def serial_rate(cost: Cost, num_envs: int, policy_seconds: float = 0.0) -> float:
    """Expected steps per second of the serial loop."""
    return num_envs / (num_envs * (cost.step_seconds + ENV_OVERHEAD) + SERIAL_ROUND + policy_seconds)


def process_rate(cost: Cost, num_envs: int, workers: int, cores: int, policy_seconds: float = 0.0) -> float:
    """Expected steps per second of worker processes: limited by the longest share, by the cores' time, and by a policy
    that acts for each half of the envs while the other half steps."""
    share = math.ceil(num_envs / workers) * (cost.step_seconds + ENV_OVERHEAD)
    policy = 2 * policy_seconds
    on_cpu = (num_envs * (cost.step_seconds * cost.cpu_share + ENV_OVERHEAD) + policy) / cores
    return num_envs / (max(share, on_cpu, policy) + PROCESS_ROUND)


def _useful_envs(cost: Cost, workers: int, memory: int) -> int:
    """Enough envs per worker to make a round long enough, at least two so that groups can overlap. A power of two, as
    two measurements of one env differ by some percent, and should give one number of envs."""
    per_worker = 2 ** round(math.log2(max(2.0, TARGET_ROUND / (cost.step_seconds + ENV_OVERHEAD))))
    count = workers * min(per_worker, MAX_ENVS_PER_WORKER)
    if cost.memory > 0:
        count = min(count, int(MEMORY_SHARE * memory / cost.memory))
    return max(1, count)


def _time_text(seconds: float) -> str:
    return (
        f"{seconds * 1e6:.0f} us"
        if seconds < 1e-3
        else f"{seconds * 1e3:.1f} ms"
        if seconds < 1
        else f"{seconds:.1f} s"
    )


# --- random legal actions ---------------------------------------------------------------------------------------------
# Of envs that say which actions are legal: in `infos["action_mask"]`, or in the same place of an observation that is a
# dict. `last` is what `reset` or `step` returned, of one env or of a vector env.

MASK = "action_mask"


def has_masks(space: gym.Space, last: Any) -> bool:
    """Whether an env with this action space says which actions are legal: for loops that should check only once."""
    return _mask(space, last) is not None


def legal(space: gym.Space, action: Any, last: Any) -> Any:
    """`action` or, if a mask forbids it, a legal one: the same for the same action and mask."""
    mask = _mask(space, last)
    return action if mask is None else _legal(space, action, mask)


def _legal(space: gym.Space, action: Any, mask: Any) -> Any:
    """Part by part, where Dict and Tuple actions have a dict or tuple of masks; other forms are for policies."""
    if isinstance(space, gym.spaces.Dict) and isinstance(mask, dict):
        return {key: _legal(part, action[key], mask.get(key)) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple) and isinstance(mask, tuple):
        return tuple(_legal(*parts) for parts in zip(space.spaces, action, mask, strict=True))
    if isinstance(space, gym.spaces.Discrete) and mask is not None:
        return np.int64(_allowed(space.start, mask, action))
    if isinstance(space, gym.spaces.MultiDiscrete) and mask is not None:
        return _legal_numbers(space, action, mask)
    return action


def _legal_numbers(space: gym.spaces.MultiDiscrete, action: Any, mask: Any) -> Any:
    """A MultiDiscrete action under the masks of its numbers: one after another, or as a tuple; others are ignored."""
    flat = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, (tuple, list)) else np.ravel(mask)
    if flat.size != space.nvec.sum():
        return action
    parts = np.split(flat, np.cumsum(space.nvec.ravel())[:-1])
    numbers = zip(np.ravel(space.start), parts, np.ravel(action), strict=True)
    return np.array([_allowed(*number) for number in numbers], space.dtype).reshape(space.shape)


def legal_batch(space: gym.Space, actions: Any, last: Any) -> Any:
    """The same for each env of a vector env, whose single action space is `space`, if that is a Discrete or a
    MultiDiscrete."""
    plain = gym.spaces.Discrete, gym.spaces.MultiDiscrete
    masks = _mask(space, last) if isinstance(space, plain) else None
    if masks is None:
        return actions
    if isinstance(space, gym.spaces.Discrete):
        return _allowed_batch(space.start, np.asarray(masks, bool), np.asarray(actions))
    return np.array([_legal(space, action, mask) for mask, action in zip(masks, actions, strict=True)])


def _mask(space: gym.Space, last: Any) -> Any:
    masked = gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.Dict, gym.spaces.Tuple
    if isinstance(space, masked) and isinstance(last, tuple) and len(last) > 1:
        for place in (last[-1], last[0]):
            if isinstance(place, dict) and place.get(MASK) is not None:
                return place[MASK]
    return None


def _allowed(start: Any, mask: Any, action: Any) -> int:
    """The action, or a legal one in its place; the action itself where none is legal, as after an episode."""
    allowed = np.flatnonzero(mask) + start
    if len(allowed) == 0 or action in allowed:
        return action
    return allowed[int(action) % len(allowed)]


def _allowed_batch(start: Any, masks: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The same for each row of a batch."""
    rows, counts = np.arange(len(actions)), masks.sum(axis=1)
    allowed_first = np.argsort(~masks, axis=1, kind="stable")
    others = allowed_first[rows, actions % np.maximum(counts, 1)] + start
    within = (actions >= start) & (actions < start + masks.shape[1])
    good = within & masks[rows, np.where(within, actions - start, 0)]
    return np.where(good | (counts == 0), actions, others)
