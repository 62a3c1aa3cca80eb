"""A collector in the learner's own process, which waits for rollouts anyway: nothing of its part has to travel.

With PPO on CartPole on two cores, a rollout and its update take 9 ms, and a way through Ray would add 5.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

from rookery.cluster.collector_actor import CollectorActor
from rookery.learners.learner import Learner
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch


class OwnCollector(CollectorActor):
    """The handle of such a collector is the collector itself."""

    _lender: Learner | None = None
    _stopwatch: Stopwatch

    def lend(self, learner: Learner, stopwatch: Stopwatch) -> None:
        """Let it act for this learner of the same process: by its policy if it has all envs, else on its threads."""
        self._lender, self._stopwatch = learner, stopwatch

    @property
    def fills_rollouts(self) -> bool:
        """Whether it has all envs, and so writes into the learner's own rollout. To copy the weights, and the rollout
        back, took 1 ms of 9 with PPO on CartPole."""
        return self._lender is not None and self.learner is self._lender

    def use_learner(self, *learning: Any) -> None:
        lender = self._lender
        if lender is not None and lender.on_policy and lender.num_envs == self.engine.num_envs:
            # Whoever asks for rollouts counts the steps of the run, by which schedules go on.
            self._collect_by(Collector(self.engine, lender, self._stopwatch, lambda steps: lender.progress))
            return
        super().use_learner(*learning)
        if lender is not None:
            self.learner.accelerator.borrow_threads(lender.accelerator)

    def fill_rollout(self) -> dict[str, Any]:
        """A rollout of all envs, in the learner's own memory; returns what comes with it."""
        self._began = time.perf_counter()
        self.collector.collect(self.learner.steps_until_update, lambda: False)
        return self._told()

    def _seed_noise(self, seed: int) -> None:
        """Not the learner's own, which draws it in the order of a run without a cluster."""
        if not self.fills_rollouts:
            super()._seed_noise(seed)

    def _usage(self) -> list[dict[str, Any]]:
        """Whoever wants it can ask the engine."""
        return []


@dataclass(frozen=True)
class OwnCall:
    """A call of it, which is made when its result is asked for: those of other collectors have begun by then."""

    collector: OwnCollector
    method: str
    args: tuple[Any, ...]

    def result(self) -> Any:
        """What it returns. A rollout is used before the next one begins, all else is copied as if it had travelled."""
        found = getattr(self.collector, self.method)(*self.args)
        return found if self.method == "collect" else copy.deepcopy(found)
