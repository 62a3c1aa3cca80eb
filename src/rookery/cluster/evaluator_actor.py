"""The process that evaluates a run's agent on some node, while the run goes on.

It is a plain class: an actor of Ray in a run, an object of this process in tests.
"""

from __future__ import annotations

import os

from rookery.cluster.node_facts import NodeFacts, facts_here
from rookery.cluster.shipped_files import Contents, use_files
from rookery.errors import RookeryError
from rookery.gate import allow
from rookery.learners.cpu_threads import keep_memory
from rookery.learners.learner import Tree
from rookery.training.evaluation.evaluator import Evaluation, Evaluator
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.components import make_evaluator
from rookery.training.storage.load_agent import agent_from
from rookery.training.storage.trust import reached_by


class EvaluatorActor:
    """Has the run's evaluator, with envs of its own."""

    _evaluator: Evaluator | None = None

    def facts(self, files: list[str], contents: Contents) -> NodeFacts:
        """See `CollectorActor.facts`."""
        use_files(files, contents)
        return facts_here(files)

    def open(self, run: ResolvedRun) -> None:
        """Be the evaluator of this run."""
        allow(reached_by(run.config))
        keep_memory()
        self._evaluator = make_evaluator(run)

    def evaluate(self, agent: Tree, most_steps: float) -> Evaluation:
        """What the evaluator in the run's own process finds for the same weights; see `Evaluator.run`."""
        if self._evaluator is None:
            raise RookeryError("the evaluator was not opened")
        evaluation = self._evaluator.run(agent_from(agent, "cpu"), most_steps=most_steps)
        assert evaluation is not None  # nobody stops it
        return evaluation

    def pid(self) -> int:
        """Of this process."""
        return os.getpid()

    def close(self) -> None:
        """Close its envs."""
        if self._evaluator is not None:
            self._evaluator.close()
