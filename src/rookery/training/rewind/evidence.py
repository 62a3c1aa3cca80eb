"""Whether a part of a run that is played again is the same, bit for bit: it is compared with what the run recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rookery.monitor.jsonl import history, plain
from rookery.training.run.loop import Loop
from rookery.training.storage.checkpoint import agent_digest
from rookery.training.storage.run_dir import RunDir


class Evidence:
    """The lines of progress and the hashes of agents in a run's metrics, by their step."""

    def __init__(self, run: RunDir) -> None:
        events = history(run.metrics) if run.metrics.is_file() else []
        self._rows = {event.step: event.values for event in events if event.kind == "progress"}
        self._agents = {event.step: event.values.get("agent") for event in events if event.kind == "checkpoint"}
        self.compared = 0  # steps
        self.difference = ""  # the first one

    def check(self, loop: Loop) -> None:
        """Compare the present moment, after an update and before anything that is due."""
        row, agent = self._rows.get(loop.steps), self._agents.get(loop.steps)
        if (row is None and agent is None) or self.difference:
            return
        self.compared += 1
        for name, then, now in self._different(loop, row or {}):
            self.difference = f"at step {loop.steps:,}, {name} is {now!r:.24} and was {then!r:.24}"
            return
        if agent is not None and agent != agent_digest(loop.state.agent_tree()):
            self.difference = f"at step {loop.steps:,}, the agent has other weights"

    @staticmethod
    def _different(loop: Loop, row: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Figures that depend on nothing but the seed. An off-policy learner's losses are means since the run was
        opened, and envs on a GPU are counted when somebody looks."""
        figures: dict[str, Any] = {"updates": loop.learner.updates, "learning_rate": loop.learner.learning_rate}
        if loop.learner.on_policy:
            figures |= {f"loss/{name}": value for name, value in loop.collector.metrics.items()}
        if not loop.collector.is_asynchronous:
            figures |= loop.episodes.metrics()
        for name, value in figures.items():
            if name in row and row[name] != plain(value):
                yield name, row[name], plain(value)
