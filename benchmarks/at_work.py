"""A learner at work, as in a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rookery.engine.machine import usable_cores
from rookery.learners.cpu_threads import keep_memory, small_products, threads_for
from rookery.learners.learner import Learner
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch


class AtWork:
    """Envs and a learner, with the number of threads a run would choose."""

    def __init__(self, envs: Any, learner: Learner, name: str, threads: int | None = None) -> None:
        keep_memory()
        self.envs, self.learner = envs, learner
        self.threads = threads_for(learner, name, usable_cores()) if threads is None else threads
        self.collector = Collector(envs, learner, Stopwatch(), lambda steps: 0.0)
        self.collector.begin(*envs.reset(seed=1))

    def work(self, steps: int) -> float:
        """Make at least so many steps, with all the learning they bring; returns steps a second."""
        with small_products(self.learner):
            return self._work(steps)

    def _work(self, steps: int) -> float:
        self.learner.use_threads(self.threads)
        before, started = self.collector.steps, time.perf_counter()
        while self.collector.steps - before < steps:
            self.collector.collect(self.learner.steps_until_update, lambda: False)
            self.collector.update()
            self.envs.finished_episodes()
        return (self.collector.steps - before) / (time.perf_counter() - started)

    def side(self, steps: int) -> Callable[[], float]:
        """A turn of a comparison, once compilers and allocators have settled."""
        self.work(2 * steps)
        return lambda: self.work(steps)
