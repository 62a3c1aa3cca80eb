"""Runs passes through perceptrons, and steps of Adam, on a team of threads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from rookery.learners.flat_adam import FlatAdam
from rookery.learners.kernels.cpu import pass_words as words
from rookery.learners.kernels.cpu.net_pass import Job, NetPass, PackedNets
from rookery.learners.kernels.cpu.pass_tasks import JOBS, SCRATCH, new_plan, pass_entries
from rookery.learners.kernels.cpu.slice_team import SliceTeam

Jobs = np.ndarray


def jobs_of(jobs: Iterable[Job]) -> Jobs:
    """Jobs that one command runs, in any order and at the same time."""
    return np.array(list(jobs), np.int64).reshape(-1, words.JOB_SIZE)


def block_jobs(passes: Sequence[NetPass]) -> Jobs:
    """All blocks of some passes, forward or backward."""
    return jobs_of(job for one in passes for job in one.jobs)


def gradient_jobs(passes: Sequence[NetPass]) -> Jobs:
    """The gradients of all parameters of some passes."""
    return jobs_of(job for one in passes for job in one.weight_jobs())


class PassTeam:
    """As many threads as `use` says; all numbers are the same for any number of them."""

    def __init__(self, scratch_size: int) -> None:
        """`scratch_size` is that of the widest `NetPass`."""
        self._plan, self._entries, self._scratch_size = new_plan(), pass_entries(), scratch_size
        self._threads = 1
        self._team: SliceTeam | None = None

    def use(self, threads: int) -> None:
        """Compute on so many threads from the next job on."""
        if threads != self._threads:
            self._threads, self._team = threads, None

    def run(self, command: int, jobs: Jobs) -> None:
        """Run all jobs, and wait for them."""
        if self._team is None or not self._team.usable:
            self._start()
        assert self._team is not None
        self._plan[JOBS] = jobs.ctypes.data
        self._team.run(self._entries[command], self._plan.ctypes.data, command, len(jobs))

    def _start(self) -> None:
        self._team = SliceTeam(self._threads)
        self._scratch = np.zeros(self._team.threads * self._scratch_size, np.float32)
        self._plan[SCRATCH] = self._scratch.ctypes.data

    def pack(self, *nets: PackedNets) -> None:
        """Read the present weights."""
        for some in nets:
            self.run(words.PACK, some.pack_jobs)


class TeamAdam:
    """Steps of an optimizer by a team."""

    def __init__(self, team: PassTeam, adam: FlatAdam) -> None:
        self._adam, self._team = adam, team
        self._numbers, self._squares = np.zeros(words.NUMBER_COUNT), np.zeros(words.SHARES)
        vectors = adam.flat, adam.gradient, *adam.moments
        memory = self._numbers.ctypes.data, self._squares.ctypes.data
        row = [*(vector.data_ptr() for vector in vectors), adam.flat.numel(), *memory]
        self._jobs = jobs_of([*row, part, *[0] * (words.JOB_SIZE - len(row) - 1)] for part in range(words.SHARES))

    def step(self, max_norm: float | None) -> None:
        """One step with the present gradient, clipped to `max_norm`."""
        adam = self._adam
        if adam.on_gradient is not None or adam.stop is not None:  # both are the optimizer's own affair
            adam.step(max_norm)
            return
        adam.steps += 1
        limit = math.inf if max_norm is None else max_norm
        self._numbers[:] = adam.learning_rate, adam.eps, limit, float(adam.steps)
        if max_norm is not None:
            self._team.run(words.SQUARES, self._jobs)
        self._team.run(words.ADAM, self._jobs)
