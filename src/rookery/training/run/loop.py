"""The training loop of a run: collect, update, evaluate, checkpoint, log."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.engine.engine import Engine
from rookery.engine.segment_stepping import EPISODE
from rookery.errors import FolderLost, RunError
from rookery.learners.learner import Tree
from rookery.monitor.events import Event
from rookery.training.curriculum.curriculum import Curriculum
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.evaluation.evaluator import Evaluation
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.run.adaptive_envs import AdaptiveNumEnvs, BackendReview
from rookery.training.run.callbacks import Callbacks, RunControl
from rookery.training.run.components import RunComponents
from rookery.training.run.recent_episodes import EpisodeRecords, HintRecords
from rookery.training.run.timing import Interval, RunCounts
from rookery.training.run.training_state import TrainingState
from rookery.training.storage.run_lock import UNWRITABLE

COMPILED = ("kernel", "cuda")  # backends
NO_EPISODES = np.zeros(0, EPISODE)
EVALUATION_SHARE = 0.25  # of the steps since the last evaluation, for episodes beyond the number that was asked for


class Loop:
    """Runs until the wanted steps, episodes or evaluation are reached, or until it is asked to stop."""

    def __init__(self, config: RunConfig, components: RunComponents) -> None:
        self.config, self.components = config, components
        self.learner, self.stop, self.review = components.learner, components.stop, components.review
        self.shared = components.shared
        self.state = TrainingState(config, components.envs, self.learner)
        self.collector, self.curriculum = self.state.collector, self.state.curriculum
        self.episodes, self.clock = self.state.episodes, self.state.clock
        control = RunControl(config, components.path, self.learner, lambda: self.state.counts)
        self.callbacks = Callbacks(components.callbacks, control)
        self.records = EpisodeRecords(components.episode_file, self.collector, self._warn)
        HintRecords(components.path / "hints.jsonl", self.collector, self._warn)
        self.state.engine.on_note = self._warn
        self._is_inexact = self._told_of_evaluations = False
        self._episodes_in_rollout = 0
        in_steps = config.steps < NO_STEP_LIMIT and self.curriculum.episodes is None
        length = config.steps if in_steps else None, self.state.episodes_in_run
        self._evaluations, self._checkpoints = (
            Interval.with_default(options.every, options.every_episodes, *length)
            for options in (config.evaluation, config.checkpoints)
        )
        intervals = self._evaluations, self._checkpoints
        self._counts_episodes = config.episodes is not None or any(each.counts_episodes for each in intervals)

    def run(self, observations: Any, infos: dict[str, Any]) -> str:
        """Train from these observations of all envs; returns why the run ended."""
        self.start(observations, infos)
        while not (reason := self.end_reason()):
            self.collect()
            self.learn()
            self.evaluate_save_and_log()
        self.finish(reason)
        return reason

    @property
    def envs(self) -> Engine | CurriculumVectorEnv:
        return self.collector.envs

    @property
    def num_envs(self) -> int:
        """Of all processes."""
        return self.envs.num_envs * self.learner.processes

    @property
    def steps(self) -> int:
        """Steps of all envs so far."""
        return self.collector.steps

    # --- beginning and end ----------------------------------------------------------------------------------------

    def begin(self) -> tuple[Any, dict[str, Any]]:
        """Begin a new run; returns the observations and infos to train from."""
        self.curriculum.apply_options(self.learner)
        for text in self.curriculum.notes:
            self._warn(text)
        if isinstance(self.curriculum, Curriculum):
            self._announce_phase(self.curriculum)
        return self.state.reset_envs(self.config.seed)

    def load(self, tree: Tree) -> tuple[Any, dict[str, Any]]:
        """Continue from a checkpoint; returns the observations and infos to train from."""
        beginning = self.state.load(tree)
        self.callbacks.load(tree.get("callbacks", {}))
        return beginning

    def start(self, observations: Any, infos: dict[str, Any]) -> None:
        """Begin to make steps."""
        self.stop.begin()
        self.clock.start(self.state.counts)
        self.collector.begin(observations, infos)
        self.callbacks.call("on_start")
        if not self.learner.steps_since_update:  # in the middle of a rollout, nothing is due before its end
            self.evaluate_save_and_log()  # an interrupted run may have ended before it could
        compiles = self.state.engine.backend in COMPILED
        self._event("doing", text="making the first steps" + " (a machine's first run compiles)" * compiles)

    def end_reason(self) -> str:
        """Why the run is over; "" while it is not."""
        goal, evaluation = self.config.evaluation.stop_at, self.state.last_evaluation
        if self.stop.asked:
            return "interrupted"
        if goal is not None and evaluation is not None and evaluation >= goal:
            return "goal reached"
        if self.callbacks.run.stop_reason:
            return self.callbacks.run.stop_reason
        if self.curriculum.finished or self.steps >= self.config.steps or self._all_episodes(self.episodes.count):
            return "finished"
        return ""

    def _all_episodes(self, count: int) -> bool:
        return self.config.episodes is not None and count >= self.config.episodes

    def finish(self, reason: str) -> None:
        """The last figures, evaluation and checkpoint."""
        self._check_folder()
        self._take_episodes()
        self._log()
        arrived = reason != "interrupted" and self._take_evaluation(wait=True)
        if reason != "interrupted" and self.state.evaluated_at != self.steps:
            self._evaluate()
            arrived |= self._take_evaluation(wait=True)
        if self.state.evaluated_at == self.steps:  # the time that it took, and what callbacks have logged
            self._event("progress", **self.state.stopwatch.shares(), **self.callbacks.take_metrics())
        self.save(again=arrived)  # with the result of an evaluation that was made elsewhere
        self._tell_of_mirror(last=True)
        self.clock.end()

    def close(self) -> None:
        """Release what the run holds of the learner's device; the envs are closed by whoever made them."""
        self.collector.close()

    # --- the parts of the loop ------------------------------------------------------------------------------------

    def _begin_next_phase(self) -> None:
        """At the end of a phase, all envs begin the next one at once."""
        if isinstance(self.curriculum, Curriculum) and self.curriculum.phase_over:
            if self.collector.is_asynchronous:
                self._take_episodes()  # those that are aborted now do not count
            self.collector.begin(*self.curriculum.begin_next_phase(self.learner))
            self._announce_phase(self.curriculum)
            self.save()  # unless there is one already, from which a resumed run begins the phase as well

    def collect(self) -> None:
        """A complete rollout, or as many steps as may be made before something else is due."""
        self._begin_next_phase()
        rounds = self.learner.steps_until_update
        if not self.learner.on_policy:
            due = [interval.steps_left(self.steps) for interval in (self._evaluations, self._checkpoints)]
            steps = min(self.config.steps - self.steps, self.curriculum.steps_left, *due)
            rounds = min(rounds, math.ceil(steps / self.envs.num_envs))
        started, steps_before, policy_before = time.perf_counter(), self.steps, self.state.stopwatch.seconds["policy"]
        self.shared.collect()
        self.collector.collect(rounds, self._must_stop)
        if self.review is not None:
            policy = self.state.stopwatch.seconds["policy"] - policy_before
            self.review.add(self.steps - steps_before, time.perf_counter() - started, policy)
        self.callbacks.call("on_rollout")

    def _must_stop(self) -> bool:
        """Whether no further step may be made for now. Rollouts are completed, whatever is due."""
        if self.stop.asked:
            return self.learner.processes == 1  # several are at the same step only between rollouts
        pending = 0 if self.learner.on_policy else self.state.pending_episodes
        if not pending or self.curriculum.phase_over or not self._counts_episodes:
            return pending > 0 and self.curriculum.phase_over
        counts = RunCounts(self.steps, self.episodes.count + pending)
        due = (interval.passed(self.state.checked_at, counts) for interval in (self._evaluations, self._checkpoints))
        return self._all_episodes(counts.episodes) or any(due)

    def learn(self) -> None:
        """Learn from the rollout. An off-policy learner has learned while the steps were collected."""
        if self.learner.on_policy:
            self.collector.set_progress()
            self.shared.update(self.learner)
            self.collector.update()
        # Envs on a GPU go on meanwhile: who looks at them waits for them.
        look = not self.collector.is_asynchronous or self._counts_episodes or self.callbacks.want_episodes
        finished = self._take_episodes() if look else NO_EPISODES
        self.callbacks.on_progress(self.learner.updates, self.collector.metrics, finished)
        self.clock.end_round(self.state.counts)

    def _take_episodes(self) -> np.ndarray:
        """Count the episodes that have ended since this was called last."""
        before = self.episodes.count
        restarts_elsewhere = self.collector.restarts_elsewhere
        listed = self.shared.episodes(self.collector)
        if self.collector.restarts_elsewhere and not restarts_elsewhere:
            self._warn("envs of another process of this run failed and were restarted; the summary counts all of them")
        finished = self.state.add_episodes(listed)
        self.records.add(self.steps, before, listed, len(finished))
        self._episodes_in_rollout = len(finished)
        return finished

    def evaluate_save_and_log(self) -> None:
        """What is due: evaluations and checkpoints by counts, so that speed changes no number; logs by the clock."""
        if self.stop.asked:
            return
        counts = self.state.counts
        before, self.state.checked_at = self.state.checked_at, counts
        evaluation_due = self._evaluations.passed(before, counts) and self.state.evaluated_at != self.steps
        checkpoint_due = self._checkpoints.passed(before, counts)
        due = evaluation_due or checkpoint_due or self.clock.log_due
        if due:
            self._check_folder()
        if due and self.collector.is_asynchronous:
            self._take_episodes()
        if due:
            self._log()  # first: the panel shows an evaluation beside the figures of the same step
        self._take_evaluation(wait=False)
        is_best = evaluation_due and self._evaluate()
        self._keep_opponents(before.steps, checkpoint_due)
        if is_best or checkpoint_due:
            self.save()
        if self.review is not None:
            self._review_backend(self.review)
        if self.components.adaptive is not None:
            self._adapt(self.components.adaptive)

    def _evaluate(self) -> bool:
        """Returns whether this evaluation is the best so far; False of one that is made elsewhere meanwhile."""
        evaluator, most_steps = self.components.evaluator, self._evaluation_steps()
        if evaluator.apart:
            self._begin_evaluation(most_steps)
            return False
        self._event("doing", text="evaluating")
        started = time.perf_counter()
        self.state.stopwatch.start()
        evaluation = evaluator.run(self.learner.agent, lambda: self.stop.asked, most_steps=most_steps)
        self.state.stopwatch.lap("evaluation")
        self.clock.leave_out(time.perf_counter() - started)
        if evaluator.shared:
            self.collector.begin(*self.state.begin_again())
        return evaluation is not None and self._add_evaluation(evaluation, self.steps)

    def _add_evaluation(self, evaluation: Evaluation, step: int) -> bool:
        """The weights of this step were evaluated; returns whether that is the best so far."""
        if evaluation.note and not self._told_of_evaluations:
            self._told_of_evaluations = True
            self._warn(evaluation.note)
        is_best = self.state.add_evaluation(evaluation, step)
        metrics = evaluation.metrics() | {"eval/best": is_best}
        self._event("evaluation", step, **metrics)
        self.callbacks.call("on_evaluation", metrics)
        return is_best

    def _begin_evaluation(self, most_steps: float) -> None:
        """Have the present weights evaluated elsewhere. Their checkpoint is saved now, and gets its score later."""
        self._take_evaluation(wait=True)  # one at a time
        self.save()
        self.components.checkpoints.held = self.state.evaluated_at = self.steps
        self.components.evaluator.begin(self.state.agent_tree(), most_steps)

    def _take_evaluation(self, wait: bool) -> bool:
        """Record an evaluation that was made elsewhere, if it has arrived or when it does; returns whether it has."""
        evaluator, step = self.components.evaluator, self.state.evaluated_at
        if not evaluator.apart:
            return False
        started = time.perf_counter()
        self.state.stopwatch.start()
        evaluation = evaluator.result(wait, lambda: self.stop.asked)
        self.state.stopwatch.lap("evaluation")
        self.clock.leave_out(time.perf_counter() - started)
        if evaluation is None:
            return False
        self.components.checkpoints.held = None
        if self._add_evaluation(evaluation, step):
            self._score(step, evaluation.mean)
        return True

    def _score(self, step: int, score: float) -> None:
        """Mark the checkpoint of an earlier step as the best."""
        try:
            path = self.components.checkpoints.set_score(step, score)
        except OSError as error:
            self._warn(f"the checkpoint of step {step} is the best, but cannot be marked: {error}; the run continues")
            return
        if path is not None and self.components.mirror is not None and step == self.state.saved_at:
            self.components.mirror.add(path)

    def _evaluation_steps(self) -> float:
        """How many steps an evaluation may make for a narrower interval: few beside those of training since the last
        one. Compiled worlds make them in no time, and whoever sets a number of episodes wants them."""
        if self.config.evaluation.max_episodes is not None or self.state.engine.backend in COMPILED:
            return math.inf
        return EVALUATION_SHARE * (self.steps - max(0, self.state.evaluated_at))

    def save(self, again: bool = False) -> None:
        """Write a checkpoint, unless there is one of this step; `again` writes another one, of an agent that was
        changed from outside. If the disk is full, the run continues with the one before."""
        state = self.state
        if (state.saved_at == self.steps and not again) or (self.stop.asked and not self.steps):
            return  # there is one already, or nothing was learned: without one, the run resumes from its beginning
        self._check_folder()
        started = time.perf_counter()
        score = state.best_evaluation if state.best_at == self.steps else None
        tree = state.tree() | self.callbacks.tree()
        tree["envs"] = self.shared.with_all_envs(tree["envs"])
        self._note_if_inexact()
        self.records.flush()
        try:
            path = self.components.checkpoints.save(self.steps, tree, score=score)
        except OSError as error:
            self._check_folder()
            if error.errno in UNWRITABLE:
                raise FolderLost(f"no checkpoint can be saved any more: {error}") from error
            self._warn(f"no checkpoint at step {self.steps}: {error}; the run continues")
            return
        state.saved_at = self.steps
        size = sum(file.stat().st_size for file in path.iterdir())
        self._event("checkpoint", path=str(path), seconds=time.perf_counter() - started, bytes=size)
        if self.components.mirror is not None:
            self.components.mirror.add(path)
        self.callbacks.call("on_checkpoint", path)

    def _check_folder(self) -> None:
        """End the run if its folder is no longer there: what is written would be found nowhere."""
        why = self.components.why_lost()
        if why:
            raise FolderLost(why)

    def _log(self) -> None:
        """Report the progress, unless it was reported at this step."""
        if self.clock.logged_at(self.steps):
            return
        self._tell_of_mirror()
        share = self.state.share_done(self.steps)
        rollout = {"episodes_in_rollout": self._episodes_in_rollout} if self.learner.on_policy else {}
        self._event(
            "progress",
            **self.episodes.metrics(),
            **rollout,
            **({"restarts": self.state.restarts} if self.state.restarts else {}),
            **(self.episodes.latest() if self.config.episodes is not None else {}),
            **self._system_figures(),
            **self.curriculum.metrics(),
            **self.state.stopwatch.shares(),
            **self.collector.figures(),
            **{f"loss/{name}": value for name, value in self.collector.metrics.items()},
            **self.callbacks.take_metrics(),
            **self.clock.log(self.state.counts),
            eta_seconds=self.clock.seconds_left(share),
            share=share,
            updates=self.learner.updates,
            num_envs=self.num_envs,
            learning_rate=self.learner.learning_rate,
        )

    def _system_figures(self) -> dict[str, float]:
        """CPU, memory and GPU, at intervals."""
        system = self.components.system
        if system is None or not system.due:
            return {}
        figures = system.sample(self.state.engine.stats())
        for text in system.take_notes():
            self._warn(text)
        return figures

    def _tell_of_mirror(self, last: bool = False) -> None:
        """Tell what has become of the copies of checkpoints; in the end, wait for the last one."""
        mirror = self.components.mirror
        if mirror is None:
            return
        if last:
            mirror.close()
        for text in mirror.take_notes():
            self._warn(text)

    def _keep_opponents(self, before: int, checkpoint_due: bool) -> None:
        """Copies of the agent become opponents."""
        try:
            self.curriculum.keep_opponents(before, self.steps, checkpoint_due, self.state.agent_tree)
        except RunError as error:
            self._warn(f"{error}; the run continues")

    def _review_backend(self, review: BackendReview) -> None:
        """Step the envs on another backend if that is faster. No number depends on it."""
        backend = review.wanted()
        changed = None if backend is None else review.change(self.state.engine, backend)
        if changed is not None:
            engine, observations = changed
            self.state.restarts_before += self.state.engine.restarts
            masks = self.collector.masks
            self.collector.use(engine)
            self.collector.begin(observations, {} if masks is None else {"action_mask": masks})
        if review.note:
            self._event("note", text=review.note)
            review.note = ""

    def _adapt(self, adaptive: AdaptiveNumEnvs) -> None:
        """Change the number of envs to what is fastest."""
        wanted = adaptive.wanted(self.steps, self.envs.num_envs)
        if wanted == self.envs.num_envs or not self.learner.can_resize:
            return
        self._event("note", text=f"{self.envs.num_envs} envs -> {wanted}: {adaptive.reason}", num_envs=wanted)
        self.collector.resize(wanted, seed=self.config.seed + self.steps)
        self.learner.resize(wanted)

    # --- events ---------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Report a choice or a change."""
        self._event("note", text=text)

    def _warn(self, text: str) -> None:
        """Report what may be wrong; the run continues."""
        self._event("note", text=text, warning=True)

    def _announce_phase(self, curriculum: Curriculum) -> None:
        announcement = curriculum.announcement(self.episodes.count)
        if announcement is not None:
            self._event("note", **announcement)

    def _note_if_inexact(self) -> None:
        """Once, if the envs cannot be saved."""
        why = self.state.why_inexact
        if why and not self._is_inexact:
            self._is_inexact = True
            self._warn(f"a resumed run will begin new episodes, so it will not be the same: {why}")

    def _event(self, kind: str, step: int | None = None, /, **values: Any) -> None:
        """Report something of the present step, or of an earlier one."""
        self.components.sinks.write(Event(kind, self.steps if step is None else step, values, time.time()))
