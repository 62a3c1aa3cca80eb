"""What the collectors of runs have in common whose envs step elsewhere and never wait for the learner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.cluster.env_shares import Share
from rookery.cluster.packed_calls import nbytes
from rookery.cluster.step_streams import AHEAD, Order, StepStreams
from rookery.engine.segment_stepping import EPISODE
from rookery.learners.learner import Learner, module_state
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch


class AsyncCollector(Collector):
    """Receives what collectors have made, in the order in which it arrives."""

    envs: Any  # `RemoteEnvs`, which makes this
    note = ""  # what the run says of it at its beginning

    def __init__(self, envs: Any, learner: Learner, stopwatch: Stopwatch, share_done: Callable[[int], float]) -> None:
        self._finished: list[np.ndarray] = []
        super().__init__(envs, learner, stopwatch, share_done)
        self._bound = envs.max_staleness
        self._streams = StepStreams(envs.collectors, envs.transport, self._order, min(AHEAD, self._bound))
        self._version, self._weights = -1, None
        self._said = False
        self.staleness = 0.0  # of what was taken last, in updates
        self.discarded = 0  # steps in all

    def use(self, envs: Any) -> None:
        self.envs, self._fused = envs, None

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        """The envs have begun already, where they are."""
        self.learner.progress = self._share_done(self.steps)
        if not self._said:
            self._said = True
            self.envs.on_note(self.note)
        self._streams.begin()

    def _order(self) -> Order:
        """What a collector is asked for now."""
        raise NotImplementedError

    def weights_now(self) -> Any:
        """The present weights, for calls of several collectors."""
        if self._version != self.learner.updates or self._weights is None:
            self._version = self.learner.updates
            self._weights = self.envs.transport.share(module_state(self.learner.policy))
        return self._weights

    def _receive_next(self, part: str, on_lost: Callable[[Share], None]) -> tuple[Share, int, dict[str, Any]]:
        """The next answer that arrives, in which `part` has the steps, and the version of its weights."""
        share, version, answer = self._streams.next(on_lost)
        self.stopwatch.lap("waiting")
        self.envs.figures.add(share.index, answer["seconds"], nbytes(answer[part]))
        self.envs.collectors.tell_notes(share.index, answer)
        self.envs.usage = answer["usage"]
        return share, version, answer

    def _take_episodes(self, share: Share, answer: dict[str, Any]) -> None:
        episodes = answer["episodes"].copy()
        episodes["env"] += share.rows.start
        self._finished.append(episodes)
        self.ended += len(episodes)
        for step, first, infos in answer["infos"]:
            start = share.rows.start + first
            count = len(infos["_final_info"] if "_final_info" in infos else infos["_hints"])
            self._tell(
                slice(start, start + count), infos, self.steps + (step + 1) * (share.rows.stop - share.rows.start)
            )

    def finished_episodes(self) -> np.ndarray:
        finished, self._finished = self._finished, []
        return np.concatenate(finished) if finished else np.zeros(0, EPISODE)

    def figures(self) -> dict[str, float]:
        return {
            **self.envs.figures.take(),
            "cluster/in_flight": self._streams.in_flight,
            "cluster/staleness": self.staleness,
            "cluster/discarded_steps": self.discarded,
        }
