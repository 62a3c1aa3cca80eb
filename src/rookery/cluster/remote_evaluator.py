"""The evaluator of a run that is a process of its own on the cluster: the run continues in the meantime."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rookery.cluster.env_shares import divide_envs
from rookery.cluster.node_facts import NodeProcess
from rookery.cluster.remote_collectors import CLOSE_SECONDS, ProcessLosses, RemoteCollectors, lost_reason
from rookery.cluster.transport import CollectorLost, Transport
from rookery.errors import RookeryError
from rookery.gate import allow
from rookery.learners.cpu_threads import keep_memory
from rookery.learners.learner import Tree
from rookery.training.evaluation.evaluator import Evaluation, Evaluator
from rookery.training.resolve.resolved_run import ResolvedRun, evaluation_seed
from rookery.training.run.components import make_evaluator
from rookery.training.storage.load_agent import agent_from
from rookery.training.storage.trust import reached_by

POLL_SECONDS = 0.2


class RemoteEvaluator:
    """Stands for the run's `Evaluator`. One evaluation at a time: `begin` it, and ask for its `result`."""

    shared, apart = False, True  # see `Evaluator`

    def __init__(self, run: ResolvedRun, transport: Transport, collectors: RemoteCollectors) -> None:
        self.seed = evaluation_seed(run.config)
        self._transport, self._collectors = transport, collectors
        (share,) = divide_envs(run, [transport.slots(None)[0]])
        self._run, self._losses = share.run, ProcessLosses(run.config)
        self._order: tuple[Tree, float] | None = None  # the present evaluation
        self._start()

    def _start(self) -> None:
        """A process, and what it does before its first evaluation; calls are made in turn."""
        self._handle = self._transport.start_helper("evaluator")
        self._calls = [self._call("facts", *self._collectors.code), self._call("open", self._run)]

    def _call(self, method: str, *args: Any) -> Any:
        return self._transport.call(self._handle, method, *args)

    def begin(self, agent: Tree, most_steps: float) -> None:
        """Evaluate an agent, by the part "agent" of a checkpoint."""
        self._order = agent, most_steps
        self._calls.append(self._call("evaluate", agent, most_steps))

    def result(self, wait: bool, stop: Callable[[], bool]) -> Evaluation | None:
        """What was begun, if it is there by now, or else when it is; None also if `stop()` becomes true first. If the
        process was lost, another one evaluates the same agent."""
        while self._order is not None:
            if self._transport.first_done(self._calls[-1:], POLL_SECONDS if wait else 0.0) is not None:
                evaluation = self._take()
                if evaluation is not None:
                    return evaluation
            if stop() or not wait:
                return None
        return None

    def _take(self) -> Evaluation | None:
        """The result of the last call, after those before it; None if the process was lost."""
        calls, self._calls = self._calls, []
        try:
            for call in calls:
                answer = self._transport.result(call, None)
                if len(calls) > 1 and call is calls[0]:
                    self._collectors.check(answer)
        except CollectorLost as error:
            self._replace(lost_reason(error, 0.0))
            return None
        except RookeryError as error:
            error.add_note(f"in {self._name}")
            raise
        self._order = None
        assert isinstance(answer, Evaluation)
        return answer

    def _replace(self, reason: str) -> None:
        name = self._name
        self._losses.count(name, reason)
        self._transport.kill(self._handle)
        self._start()
        self._collectors.note(f"{name} {reason}: another one evaluates the same weights")
        assert self._order is not None
        self.begin(*self._order)

    @property
    def _name(self) -> str:
        return f"the evaluator (on {self._transport.place(self._handle)})"

    def close(self) -> None:
        """End its process, also in the middle of an evaluation."""
        if not self._calls:
            with suppress(Exception):
                self._transport.result(self._call("close"), CLOSE_SECONDS)
        self._transport.kill(self._handle)


class EvaluatorActor(NodeProcess):
    """Has the run's evaluator, with envs of its own."""

    _evaluator: Evaluator | None = None

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

    def close(self) -> None:
        """Close its envs."""
        if self._evaluator is not None:
            self._evaluator.close()
