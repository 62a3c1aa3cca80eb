"""The collector of envs that act for an off-policy learner elsewhere: it keeps steps instead of recording them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.learners.learner import StepBatch
from rookery.learners.offpolicy import OffPolicy
from rookery.learners.remote_steps import ChunkWriter, StepChunk
from rookery.training.run.collector import Collector, CollectorPart, finals


class StepCollector(Collector):
    """Makes chunks of steps with a copy of the policy."""

    learner: OffPolicy
    steps_made = 0  # of the present chunk

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._writer = ChunkWriter(self.learner)

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        super().begin(observations, infos)
        self._writer.begin(observations)

    def chunk(self, rounds: int) -> StepChunk:
        """So many steps of every env."""
        self.steps_made = 0
        self.collect(rounds, lambda: False)
        return self._writer.take()

    def _record(self, part: CollectorPart, step: tuple[Any, ...]) -> None:
        observations, rewards, terminated, truncated, infos = step
        part.observations, part.mask = observations, self._mask_of(observations, infos)
        if "final_obs" in infos:
            self.ended += int(np.count_nonzero(infos["_final_obs"]))
        self._tell(part.rows, infos, self.steps)
        self._writer.add(StepBatch(observations, rewards, terminated, truncated, finals(infos), part.mask))
        self.steps_made += 1
