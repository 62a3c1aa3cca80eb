"""Threads that step costly envs in rounds, moment by moment: rookery's, and threads that only call `mj_step`."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from mujoco_limit import begin_step, finish_step, record
from rookery.atomics import atomic_add, cpu_pause, load, store, yield_thread
from rookery.kernel.interrupt import clock, prepare
from rookery.kernel.thread_team import _sort_by_cost
from rookery.worlds.mujoco.mujoco_library import load as load_library

MOST_ROUNDS = 4096
ROUND, ARRIVED, NEXT, STOP = range(0, 4 * 64, 64)  # words that threads share, by their offset in bytes
prepare()  # the clock of compiled code
_sort = numba.njit(_sort_by_cost)


class Rounds(NamedTuple):
    """What happened in some rounds, in nanoseconds: when each began and was over, and for each thread (columns) when it
    began its first env, when its last one was done, and how long it was at work. And what each env's step took: one
    row, or two, if its last part is apart from what comes before it."""

    starts: np.ndarray
    ends: np.ndarray
    first: np.ndarray
    last: np.ndarray
    busy: np.ndarray
    costs: np.ndarray

    @property
    def steps_per_second(self) -> float:
        return (len(self.starts) - 1) * self.costs.shape[2] / ((self.starts[-1] - self.starts[0]) * 1e-9)


class MeetingThreads:
    """Threads that replay recorded steps of envs, and meet after each round. Without `taking`, each has its own envs;
    with it, each takes the next one, those first whose last step took longest. They spin, in compiled code;
    with `yielding`, by a system call that lets others run."""

    def __init__(self, task: str, threads: int, envs: int, taking: bool, yielding: bool = False) -> None:
        recording = record(task)
        self._threads, self._taking, self._yielding = threads, taking, yielding
        model = recording.world.model
        self._data = [load_library().package.MjData(model) for _ in range(envs)]
        begins = np.flatnonzero(recording.episodes >= 0)
        addresses = np.array([[each._address, each.ctrl.ctypes.data] for each in self._data], np.uint64)
        self._replayed = (
            np.uint64(model._address), addresses, recording.controls, recording.episodes, recording.starts,
            begins[np.arange(envs) * len(begins) // envs].copy(), recording.world.frame_skip,
            recording.world.state_kind,
        )  # fmt: skip
        self._order = np.array([*range(envs), *[0] * envs])  # envs, and then what the last step of each took
        self.measure(0.0)  # compiles

    def measure(self, seconds: float, in_parts: bool = False) -> tuple[Rounds, np.ndarray]:
        """Rounds for some seconds, and what the system did with the threads. With `in_parts`, the costs of the last
        `mj_step` are apart."""
        words, envs = np.zeros(4 * 8, np.int64), len(self._data)
        times = np.zeros((4, MOST_ROUNDS, self._threads), np.int64)  # released, first, last, busy
        costs = np.zeros((MOST_ROUNDS, 2, envs), np.int64)
        deadline = time.monotonic_ns() + int(seconds * 1e9)
        ways = self._taking, self._yielding
        shared = words.ctypes.data, deadline, self._order, self._order.ctypes.data, *ways, times, costs
        made, events = [0] * self._threads, []

        def work(slot: int) -> None:
            own = [threading.get_native_id()]
            before = scheduling(own)
            made[slot] = _rounds(slot, self._threads, *shared, *self._replayed)
            events.append(scheduling(own) - before)

        threads = [threading.Thread(target=work, args=(slot,)) for slot in range(self._threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        released, first, last, busy = times[:, : made[0]]
        starts = released.max(1)  # only the thread that came last writes it
        costs = costs[: made[0]] if in_parts else costs[: made[0]].sum(1, keepdims=True)
        return Rounds(starts, last.max(1), first, last, busy, costs), np.sum(events, 0)


@numba.njit(nogil=True)
def _rounds(
    slot: int, threads: int, words: int, deadline: int, order: Any, address: int, taking: bool, yielding: bool,
    times: Any, costs: Any, model: int, addresses: Any, controls: Any, episodes: Any, starts: Any, at: Any, skip: int,
    kind: int
) -> int:  # fmt: skip
    envs = len(addresses)
    for this in range(times.shape[1]):
        if atomic_add(words + ARRIVED, 1) == threads * (this + 1) - 1:
            if taking:
                _sort(address, address + 8 * envs, envs)
            store(words + NEXT, 0)
            if clock() > deadline:
                store(words + STOP, 1)
            times[0, this, slot] = clock()
            store(words + ROUND, this + 1)
        while load(words + ROUND) <= this:
            if yielding:
                yield_thread()
            else:
                cpu_pause()
        if load(words + STOP) != 0:
            return this
        k = atomic_add(words + NEXT, 1) if taking else slot * envs // threads
        end = envs if taking else (slot + 1) * envs // threads
        times[1, this, slot] = clock()
        while k < end:
            env, began = order[k] if taking else k, clock()
            begin_step(env, model, addresses, controls, episodes, starts, at, skip, kind)
            costs[this, 0, env] = clock() - began
            finish_step(env, model, addresses)
            order[envs + env] = clock() - began
            costs[this, 1, env] = order[envs + env] - costs[this, 0, env]
            times[3, this, slot] += order[envs + env]
            k = atomic_add(words + NEXT, 1) if taking else k + 1
        times[2, this, slot] = clock()
    return times.shape[1]


class RookeryRounds:
    """A vector env of a costly kernel world, whose threads take envs by their cost."""

    def __init__(self, envs: Any, pinned: bool = False) -> None:
        self._envs, self._choice, self._pinned = envs, envs._thread_choice, pinned
        if self._choice._team is None:
            self._choice.use_threads(1.0)
        space = envs.single_action_space
        space.seed(0)
        self._actions = [np.array([space.sample() for _ in range(envs.num_envs)]) for _ in range(64)]
        envs.reset(seed=0)
        envs.step(self._actions[0])  # prepares the call of the team

    def measure(self, seconds: float) -> tuple[Rounds, np.ndarray]:
        """Rounds for some seconds, and what the system did with the threads."""
        noted: list[tuple[int, int, np.ndarray]] = []
        choice, run, last_steps = self._choice, self._choice._run_team, self._choice._team.last_steps

        def noting() -> int:
            start = time.monotonic_ns()
            outcome: int = run()
            noted.append((start, time.monotonic_ns(), last_steps.copy()))
            return outcome

        choice._run_team = noting
        threads = team_threads()
        before = scheduling(threads)
        with pinned_threads() if self._pinned else _as_they_are():
            until, k = time.perf_counter() + seconds, 0
            while time.perf_counter() < until:
                self._envs.step(self._actions[k % 64])
                k += 1
        choice._run_team = run
        return _read(noted[3:], choice._threads), scheduling(threads) - before


def _read(noted: list[tuple[int, int, np.ndarray]], threads: int) -> Rounds:
    """Per thread, from what the team notes of each env, or of both parts of each env's step. A thread without an env
    began when the round was over."""
    starts, ends = (np.array(column) for column in list(zip(*noted, strict=True))[:2])
    costs, began, slots = (np.array([steps[k] for _, _, steps in noted]) for k in range(3))
    first, last, busy = np.repeat(ends[None, :, None], 3, 0) + np.zeros((1, 1, threads), np.int64)
    busy[:] = 0
    for slot in range(threads):
        own = slots == slot
        some = own.any((1, 2))
        first[some, slot] = np.where(own, began, np.iinfo(np.int64).max).min((1, 2))[some]
        last[some, slot] = np.where(own, began + costs, 0).max((1, 2))[some]
        busy[:, slot] = np.where(own, costs, 0).sum((1, 2))
    return Rounds(starts, ends, first, last, busy, costs)


@contextmanager
def pinned_threads() -> Iterator[None]:
    """Each of rookery's threads, and this one, on a core of its own."""
    cores, threads = sorted(os.sched_getaffinity(0)), team_threads()
    for thread, core in zip(threads, cores, strict=False):
        os.sched_setaffinity(thread, {core})
    try:
        yield
    finally:
        for thread in threads:
            os.sched_setaffinity(thread, set(cores))


@contextmanager
def _as_they_are() -> Iterator[None]:
    yield


def team_threads() -> list[int]:
    """This thread and rookery's others, by their numbers in the system."""
    others = (each.native_id for each in threading.enumerate() if each.name.startswith("rookery-kernel"))
    return [threading.get_native_id(), *(number for number in others if number is not None)]


def scheduling(threads: list[int]) -> np.ndarray:
    """How often threads gave up their cores, were taken from them, and came to others; NaN if the system does not say.
    Last, the seconds in which the machine that this one runs on gave it no core, per thread."""
    names = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "se.nr_migrations")
    found = dict.fromkeys(names, np.nan)
    for thread, file in itertools.product(threads, ("status", "sched")):
        with suppress(OSError):
            lines = Path(f"/proc/self/task/{thread}/{file}").read_text().splitlines()
            for name, number in ((name.strip(), number) for name, _, number in (line.partition(":") for line in lines)):
                if name in found:
                    found[name] = np.nansum([found[name], int(number)])
    stolen = np.nan
    with suppress(OSError, IndexError):
        stolen = int(Path("/proc/stat").read_text().split()[8]) / os.sysconf("SC_CLK_TCK") / os.cpu_count()
    return np.array([*found.values(), stolen * len(threads)])
