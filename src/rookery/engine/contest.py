"""Several engines of one world, stepped in turns: whatever else the machine does slows all of them alike, so that their
rates can be compared although it is busy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.vector.utils import batch_space

from rookery.engine.autotune import (
    MAX_ENVS_PER_WORKER,
    Choice,
    choose,
    has_masks,
    legal_batch,
    serial_rate,
    worker_with,
)
from rookery.engine.cost_memory import Cost, remember_fastest
from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory
from rookery.engine.local import SerialEngine
from rookery.engine.machine import BUSY, available_memory, busy_cores, usable_cores
from rookery.engine.process import ProcessEngine
from rookery.engine.settings import Settings
from rookery.engine.worker_envs import WorkerEnvs

ACTION_ROUNDS = 256
TURNS = 8  # of each engine
NEAR = 0.98  # of the best rate: fewer envs within it are better. 0.95 was at times 88 % of the best beside a busy core.
MEMORY_SHARE = 0.5  # of the free memory, for all engines that take turns
MIN_WORKERS, WORKERS_PER_CORE = 16, 4  # how many processes take turns: idle ones cost little, thousands do not


class EnginePlan(NamedTuple):
    """An engine to try."""

    backend: str  # "serial", "process" or "kernel"
    num_envs: int
    workers: int


class Entrant(NamedTuple):
    """An engine that runs: a function that steps it for some seconds and returns steps per second, and its memory."""

    rate: Callable[[float], float]
    memory: Callable[[], int]


def fastest(plans: Sequence[EnginePlan], rates: Sequence[float]) -> EnginePlan:
    """Of the plans within 2 % of the best rate, the one with the fewest envs, then workers."""
    best = max(rates)
    near = [(plan, rate) for plan, rate in zip(plans, rates, strict=True) if rate >= NEAR * best]
    return min(near, key=lambda p: (p[0].num_envs, p[0].workers, p[0].backend != "serial", -p[1]))[0]


def contest(
    source: EnvFactory,
    cost: Cost,
    plans: Sequence[EnginePlan],
    seconds: float,
    turns: int = TURNS,
    start_method: str | None = None,
    on_turn: Callable[[EnginePlan], None] = lambda plan: None,
) -> list[tuple[float, int]]:
    """Steps per second and bytes of memory of each plan. Each is stepped for `seconds` in all, in so many turns, and
    its rate is the mean of them; `on_turn` is called before each.

    Not the median: beside a busy core a turn is either twice as fast or not, by which core the scheduler chose. Of
    turns recorded there, the mean of five led to a choice within 10 % of the best 100 times of 100, the median 86.
    """
    found: list[tuple[float, int]] = []
    for group in _groups(cost, plans):
        with ExitStack() as stack:
            entrants = [stack.enter_context(_entrant(source, cost, plan, start_method)) for plan in group]
            for entrant in entrants:
                entrant.rate(seconds / 10)
            rates: list[list[float]] = [[] for _ in group]
            for _ in range(turns):
                for plan, entrant, measured in zip(group, entrants, rates, strict=True):
                    on_turn(plan)
                    measured.append(entrant.rate(seconds / turns))
            found += [(statistics.fmean(r), e.memory()) for r, e in zip(rates, entrants, strict=True)]
    return found


def _groups(cost: Cost, plans: Sequence[EnginePlan]) -> Iterator[list[EnginePlan]]:
    """As many plans side by side as the machine can hold; one at least."""
    most_workers = max(MIN_WORKERS, WORKERS_PER_CORE * usable_cores())
    most_memory = MEMORY_SHARE * available_memory()
    group: list[EnginePlan] = []
    for plan in plans:
        together = [*group, plan]
        memory = sum(p.workers * cost.process_memory + p.num_envs * cost.memory for p in together)
        if group and (memory > most_memory or sum(p.workers for p in together) > most_workers):
            yield group
            together = [plan]
        group = together
    if group:
        yield group


# --- what `auto` chooses ----------------------------------------------------------------------------------------------

AUTO_SECONDS, AUTO_TURNS = 0.25, 5  # of each engine; on a busy machine twice as many
LOOK_SECONDS = 0.05  # at what else the machine does
SERIAL_ENVS = (8, 32)
LONG_ROUND = 0.05  # seconds of steps in a turn: with longer ones, what a round costs beside them does not matter
LONG_BUILD = 2.0  # seconds to make the envs of an engine


def measured_choice(
    source: EnvFactory,
    expected: Choice,
    num_envs: int | None,
    workers: int | None,
    at_least: int = 1,
    start_method: str | None = None,
) -> Choice:
    """What is fastest of a few engines that have what the caller gave. What is `expected` from the cost of a step, if
    that cannot be measured in a second."""
    cost = expected.cost
    assert cost is not None
    plans = [plan for plan in _shortlist(cost, expected, num_envs, workers, at_least) if _is_quick(cost, plan)]
    if len(plans) < 2:
        return expected
    busy = is_busy(LOOK_SECONDS)
    try:
        times = 2 if busy else 1
        measured = contest(source, cost, plans, times * AUTO_SECONDS, times * AUTO_TURNS, start_method)
    except Exception:  # noqa: BLE001 - such as envs that cannot run twice at a time: problems are reported later
        return expected
    return settle(source, cost, plans, [rate for rate, _ in measured], busy, num_envs, workers, at_least)


def settle(
    source: EnvFactory, cost: Cost, plans: Sequence[EnginePlan], rates: Sequence[float], busy: bool, *asked: object
) -> Choice:
    """Choose the fastest plan, and let `auto` do so where the same is asked: number of envs, of workers, at least."""
    best = fastest(plans, rates)
    remember_fastest(source, best, busy, *asked)
    return choose(cost, best.num_envs, best.workers, best.backend, rate=rates[plans.index(best)])


def is_busy(seconds: float) -> bool:
    """Whether other programs use more than a little of the machine: it takes so many seconds to see."""
    return busy_cores(seconds) > BUSY * usable_cores()


def _shortlist(
    cost: Cost, expected: Choice, num_envs: int | None, workers: int | None, at_least: int
) -> list[EnginePlan]:
    """The serial loop, and worker processes with the numbers of envs between which the fastest one usually is."""
    count = choose(cost, num_envs, workers, "process", at_least=at_least).workers
    if num_envs is not None:
        return [EnginePlan("serial", num_envs, 1), EnginePlan("process", num_envs, count)]
    plans = [
        EnginePlan("serial", _serial_envs(cost, at_least), 1),
        EnginePlan("process", expected.num_envs, count),
        EnginePlan("process", count * MAX_ENVS_PER_WORKER, count),
    ]
    return [plan for plan in dict.fromkeys(plans) if plan.num_envs >= max(at_least, plan.workers)]


def _serial_envs(cost: Cost, at_least: int) -> int:
    """The fewest envs that the serial loop should step as fast as most. How much more each makes of a round is better
    known from the cost of a step than from a second of turns, which took the slower one three times of ten."""
    counts = [envs for envs in SERIAL_ENVS if envs >= at_least] or [at_least]
    return next(envs for envs in counts if serial_rate(cost, envs) >= NEAR * serial_rate(cost, counts[-1]))


def _is_quick(cost: Cost, plan: EnginePlan) -> bool:
    share = plan.num_envs / plan.workers
    return share * cost.step_seconds < LONG_ROUND and share * cost.build_seconds < LONG_BUILD


# --- engines that take turns ------------------------------------------------------------------------------------------


@contextmanager
def _entrant(source: EnvFactory, cost: Cost, plan: EnginePlan, start_method: str | None) -> Iterator[Entrant]:
    if plan.backend == "serial":
        # In a process of its own, as envs in this one could change it: its random numbers, its windows.
        with worker_with(source, start_method) as call:
            call(_host, source, plan.num_envs)
            yield Entrant(lambda seconds: call(_hosted_rate, seconds), lambda: plan.num_envs * cost.memory)
        return
    in_processes = plan.backend == "process"
    settings = Settings(plan.num_envs, plan.workers, start_method=start_method)
    engine: Engine = (ProcessEngine if in_processes else _kernel_engine())(source, settings)
    try:
        stepper = RandomStepper.of(engine)
        workers = engine.stats if in_processes else list  # a kernel world's envs are a few numbers each
        yield Entrant(
            lambda seconds: stepper.rate(plan.num_envs, seconds), lambda: sum(worker["memory"] for worker in workers())
        )
    finally:
        engine.close()


def _kernel_engine() -> Callable[..., Engine]:
    from rookery.engine.kernel import KernelEngine  # which imports Numba

    return KernelEngine


_hosted: list[tuple[RandomStepper, int]] = []  # in the process of a serial engine: the engine's stepper, its envs


def _host(_: WorkerEnvs, source: EnvFactory, num_envs: int) -> None:
    _hosted[:] = [(RandomStepper.of(SerialEngine(source, Settings(num_envs))), num_envs)]


def _hosted_rate(_: WorkerEnvs, seconds: float) -> float:
    stepper, num_envs = _hosted[0]
    return stepper.rate(num_envs, seconds)


# --- random steps -----------------------------------------------------------------------------------------------------


class RandomStepper:
    """Steps a vector env with random actions that were sampled before; action masks are applied if its infos have them.
    `last` is the result of its `reset`; `space` is the action space of one env."""

    def __init__(self, step: Callable[[Any], Any], space: gym.Space, actions: list[Any], last: Any) -> None:
        self._step, self._space, self._actions, self._last = step, space, actions, last
        self._masked = has_masks(space, last)

    @classmethod
    def of(cls, envs: Engine) -> RandomStepper:
        """For an engine, which is reset."""
        space = envs.single_action_space
        return cls(envs.step, space, sample_actions(space, envs.num_envs), envs.reset(seed=0))

    def rate(self, num_envs: int, seconds: float) -> float:
        """Step for about `seconds`; returns steps per second, counting every env."""
        step = self._legal_step if self._masked else self._step
        clock, actions, count = time.perf_counter, self._actions, 0
        start = now = clock()
        while now - start < seconds:
            step(actions[count % len(actions)])
            count += 1
            now = clock()
        return num_envs * count / (now - start)

    def _legal_step(self, actions: Any) -> None:
        self._last = self._step(legal_batch(self._space, actions, self._last))


def sample_actions(space: gym.Space, num_envs: int, seed: int = 0) -> list[Any]:
    """Batches of random actions, the same for the same arguments."""
    batched = batch_space(space, num_envs)
    batched.seed(seed)
    return [batched.sample() for _ in range(ACTION_ROUNDS)]
