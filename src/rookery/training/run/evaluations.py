"""The evaluations of a run while it trains: made between two rollouts, or elsewhere in the meantime, one at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rookery.training.evaluation.evaluator import Evaluation
from rookery.training.run.callbacks import Callbacks
from rookery.training.run.components import RunComponents
from rookery.training.run.training_state import TrainingState

COMPILED = ("kernel", "cuda")  # backends
EVALUATION_SHARE = 0.05  # of the steps since the last evaluation, for episodes beyond the number that was requested


class Evaluations:
    """Has the agent evaluated, and records the results in the run's state."""

    def __init__(
        self, components: RunComponents, state: TrainingState, callbacks: Callbacks, save: Callable[[], None]
    ) -> None:
        """`save` writes a checkpoint of the present step."""
        self._state, self._callbacks, self._save = state, callbacks, save
        self._evaluator, self._outputs, self._stop = components.evaluator, components.outputs, components.stop
        self._told = False
        self.until_done = False  # also after a signal

    @property
    def made(self) -> bool:
        """Whether the agent of the present step was evaluated, or is being evaluated."""
        return self._state.evaluated_at == self._state.steps

    @property
    def goal_reached(self) -> bool:
        """Whether the last result is what the run was to reach."""
        goal, last = self._state.config.evaluation.stop_at, self._state.last_evaluation
        return goal is not None and last is not None and last >= goal

    def make(self) -> bool:
        """Returns whether this evaluation is the best so far; False of one that is made elsewhere in the meantime."""
        state, most_steps = self._state, self._most_steps()
        if self._evaluator.apart:
            self._begin_elsewhere(most_steps)
            return False
        self._outputs.event("doing", text="evaluating")
        with self._timed():
            evaluation = self._evaluator.run(state.learner.agent, self._must_stop, most_steps=most_steps)
        if self._evaluator.shared:
            state.collector.begin(*state.begin_again())
        return evaluation is not None and self._add(evaluation, state.steps)

    def take(self, wait: bool) -> bool:
        """Record an evaluation that was made elsewhere, if it has arrived or when it does; returns whether it has."""
        step = self._state.evaluated_at
        if not self._evaluator.apart:
            return False
        with self._timed():
            evaluation = self._evaluator.result(wait, self._must_stop)
        if evaluation is None:
            return False
        self._outputs.checkpoints.held = None
        if self._add(evaluation, step):
            self._outputs.mark_best(step, evaluation.mean, is_last=step == self._state.saved_at)
        return True

    def _begin_elsewhere(self, most_steps: float) -> None:
        """Have the present weights evaluated elsewhere. Their checkpoint is saved now, and gets its score later."""
        self.take(wait=True)  # one at a time
        self._save()
        self._outputs.checkpoints.held = self._state.evaluated_at = self._state.steps
        self._evaluator.begin(self._state.agent_tree(), most_steps)

    def _add(self, evaluation: Evaluation, step: int) -> bool:
        """The weights of this step were evaluated; returns whether that is the best so far."""
        if evaluation.note and not self._told:
            self._told = True
            self._outputs.warn(evaluation.note)
        is_best = self._state.add_evaluation(evaluation, step)
        metrics = evaluation.metrics() | {"eval/best": is_best}
        self._outputs.event("evaluation", step, **metrics)
        self._callbacks.call("on_evaluation", metrics)
        return is_best

    def _must_stop(self) -> bool:
        return self._stop.asked and not self.until_done

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """The time of an evaluation is not time of training."""
        started = time.perf_counter()
        self._state.stopwatch.start()
        yield
        self._state.stopwatch.lap("evaluation")
        self._state.clock.leave_out(time.perf_counter() - started)

    def _most_steps(self) -> float:
        """How many steps an evaluation may take for a narrower interval: few beside those of training since the last
        one. Compiled worlds make them in no time, and a user who sets a number of episodes wants them."""
        if self._state.config.evaluation.max_episodes is not None or self._state.engine.backend in COMPILED:
            return math.inf
        return EVALUATION_SHARE * (self._state.steps - max(0, self._state.evaluated_at))
