"""The training loop of a run: collect, update, evaluate, checkpoint, log."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.engine.engine import Engine
from rookery.engine.segment_stepping import EPISODE
from rookery.errors import RunError
from rookery.learners.learner import Tree
from rookery.training.curriculum.curriculum import Curriculum
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.run.callbacks import Callbacks, RunControl
from rookery.training.run.components import RunComponents
from rookery.training.run.evaluations import COMPILED, Evaluations
from rookery.training.run.recent_episodes import EpisodeRecords, HintRecords
from rookery.training.run.timing import Interval, RunCounts, SpareSaves
from rookery.training.run.training_state import TrainingState

NO_EPISODES = np.zeros(0, EPISODE)


class Loop:
    """Runs until the wanted steps, episodes or evaluation are reached, or until it is asked to stop."""

    def __init__(self, config: RunConfig, components: RunComponents) -> None:
        self.config, self.components = config, components
        self.learner, self.stop, self.shared = components.learner, components.stop, components.shared
        self.outputs, self.adaptation = components.outputs, components.adaptation
        self.state = TrainingState(config, components.envs, self.learner)
        self.collector, self.curriculum = self.state.collector, self.state.curriculum
        self.episodes, self.clock = self.state.episodes, self.state.clock
        self.outputs.step, warn = lambda: self.steps, self.outputs.warn
        control = RunControl(config, self.outputs.path, self.learner, lambda: self.state.counts)
        self.callbacks = Callbacks(components.callbacks, control)
        self.evaluations = Evaluations(components, self.state, self.callbacks, self.save)
        self.records = EpisodeRecords(self.outputs.episode_file, self.collector, warn)
        HintRecords(self.outputs.path / "hints.jsonl", self.collector, warn)
        self.state.engine.on_note = warn
        self._is_inexact = False
        self._episodes_in_rollout = 0
        in_steps = config.steps < NO_STEP_LIMIT and self.curriculum.episodes is None
        length = config.steps if in_steps else None, self.state.episodes_in_run
        self._intervals = self._evaluation_interval, self._checkpoint_interval = (
            Interval.with_default(config.evaluation.every, config.evaluation.every_episodes, *length),
            Interval.with_default(config.checkpoints.every, config.checkpoints.every_episodes, *length),
        )
        options = config.checkpoints
        by_clock = options.every is None and options.every_episodes is None and options.mirror is None
        self._spare = SpareSaves(time.monotonic()) if by_clock and options.budget else None
        self._counts_episodes = config.episodes is not None or any(each.counts_episodes for each in self._intervals)

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
            self.outputs.warn(text)
        self._announce_phase()
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
        if not self.in_rollout:  # nothing is due before its end
            self.evaluate_save_and_log()  # an interrupted run may have ended before it could
        compiles = self.state.engine.backend in COMPILED
        self.outputs.event("doing", text="making the first steps" + " (a machine's first run compiles)" * compiles)

    def end_reason(self) -> str:
        """Why the run is over; "" while it is not. A signal after the last rollout interrupts nothing, and a rollout
        that was interrupted is completed, as it would have been."""
        if self.in_rollout:
            return "interrupted" if self.stop.asked else ""
        reason = self._goal()
        return "interrupted" if self.stop.asked and not reason else reason

    @property
    def in_rollout(self) -> bool:
        """Whether the next update waits for more steps of the rollout that it learns from."""
        return self.learner.on_policy and self.learner.steps_since_update > 0

    def _goal(self) -> str:
        """Which goal of the run is reached; "" if there is none yet."""
        if self.evaluations.goal_reached:
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
        self.outputs.check_folder()
        self.take_episodes()
        self._log()
        again = reason != "interrupted" and self._evaluate_last()
        if self.evaluations.made:  # the time that it took, and what callbacks have logged
            self.outputs.event("progress", **self.state.stopwatch.shares(), **self.callbacks.take_metrics())
        self.save(again=again)
        self.outputs.tell_of_mirror(last=True)
        self.clock.end()

    def _evaluate_last(self) -> bool:
        """Evaluate the last agent; returns whether its checkpoint should be written again, with the result. After a
        signal, the agent is saved first: a user who cannot wait for its evaluation loses nothing by ending the
        process."""
        if self.stop.asked:
            self.save()
            self.evaluations.until_done = True
        arrived = self.evaluations.take(wait=True)
        if not self.evaluations.made:
            arrived |= self.evaluations.make() and self.stop.asked
            arrived |= self.evaluations.take(wait=True)
        if self.stop.asked and not self.evaluations.until_done:  # the signal came in the meantime, and broke it off
            arrived |= self._evaluate_last()
        return arrived

    def close(self) -> None:
        """Release what the run holds of the learner's device; the envs are closed by the code that made them."""
        self.collector.close()

    # --- the parts of the loop ------------------------------------------------------------------------------------

    def _begin_next_phase(self) -> None:
        """At the end of a phase, all envs begin the next one at once. A rollout that was interrupted is completed
        first, as it would have been."""
        if isinstance(self.curriculum, Curriculum) and self.curriculum.phase_over and not self.in_rollout:
            if self.collector.is_asynchronous:
                self.take_episodes()  # those that are aborted now do not count
            self.collector.begin(*self.curriculum.begin_next_phase(self.learner))
            self._announce_phase()
            self.save()  # unless there is one already, from which a resumed run begins the phase as well

    def collect(self, most: int | None = None) -> None:
        """A complete rollout, or as many steps as may be made before something else is due; at most so many of each
        env."""
        self._begin_next_phase()
        rounds = self.learner.steps_until_update if most is None else min(most, self.learner.steps_until_update)
        if not self.learner.on_policy:
            due = [interval.steps_left(self.steps) for interval in self._intervals]
            steps = min(self.config.steps - self.steps, self.curriculum.steps_left, *due)
            rounds = min(rounds, math.ceil(steps / self.envs.num_envs))
        started, steps_before, policy_before = time.perf_counter(), self.steps, self.state.stopwatch.seconds["policy"]
        self.shared.collect()
        self.collector.collect(rounds, self._must_stop)
        policy = self.state.stopwatch.seconds["policy"] - policy_before
        self.adaptation.add_rollout(self.steps - steps_before, time.perf_counter() - started, policy)
        self.callbacks.call("on_rollout")

    def _must_stop(self) -> bool:
        """Whether no further step may be made for now. Rollouts are completed, whatever is due."""
        if self.stop.asked:
            return self.learner.processes == 1  # several are at the same step only between rollouts
        pending = 0 if self.learner.on_policy else self.state.pending_episodes
        if not pending or self.curriculum.phase_over or not self._counts_episodes:
            return pending > 0 and self.curriculum.phase_over
        counts = RunCounts(self.steps, self.episodes.count + pending)
        due = (interval.passed(self.state.checked_at, counts) for interval in self._intervals)
        return self._all_episodes(counts.episodes) or any(due)

    def learn(self) -> None:
        """Learn from the rollout. An off-policy learner has learned while the steps were collected."""
        if self.learner.on_policy:
            self.collector.set_progress()
            self.shared.update(self.learner)
            self.collector.update()
        # Envs on a GPU continue: reading them would synchronise with the GPU.
        look = not self.collector.is_asynchronous or self._counts_episodes or self.callbacks.want_episodes
        finished = self.take_episodes() if look else NO_EPISODES
        self.callbacks.on_progress(self.learner.updates, self.collector.metrics, finished)
        self.clock.end_round(self.state.counts)

    def take_episodes(self) -> np.ndarray:
        """Count the episodes that have ended since this was called last."""
        before = self.episodes.count
        restarts_elsewhere = self.collector.restarts_elsewhere
        listed = self.shared.episodes(self.collector)
        if self.collector.restarts_elsewhere and not restarts_elsewhere:
            self.outputs.warn(
                "envs of another process of this run failed and were restarted; the summary counts all of them"
            )
        finished = self.state.add_episodes(listed)
        self.records.add(self.steps, before, listed, len(finished))
        self._episodes_in_rollout = len(finished)
        return finished

    def evaluate_save_and_log(self) -> None:
        """What is due: evaluations and checkpoints by counts, so that speed changes no number; logs and further
        checkpoints, which change none, by the clock."""
        if self.stop.asked:
            return
        counts = self.state.counts
        before, self.state.checked_at = self.state.checked_at, counts
        evaluation_due = self._evaluation_interval.passed(before, counts) and not self.evaluations.made
        checkpoint_due = self._checkpoint_interval.passed(before, counts)
        due = evaluation_due or checkpoint_due or self.clock.log_due
        if due:
            self.outputs.check_folder()
            if self.collector.is_asynchronous:
                self.take_episodes()
            self._log()  # first: the panel shows an evaluation beside the figures of the same step
        self.evaluations.take(wait=False)
        is_best = evaluation_due and self.evaluations.make()
        self._keep_opponents(before.steps, checkpoint_due)
        if is_best or checkpoint_due:
            self.save()
        elif self._spare is not None and self._spare.due(time.monotonic()):
            self._save_spare(self._spare)
        self.adaptation.adapt(self.state, self.outputs)

    def _save_spare(self, spare: SpareSaves) -> None:
        """One more checkpoint, where it helps to go back: not in several processes, whose clocks differ, and not
        without the envs."""
        spare.saved(time.monotonic(), 0.0)
        if self.steps and self.learner.processes == 1 and not self._is_inexact:
            self.save(told=False)

    def save(self, again: bool = False, told: bool = True) -> None:
        """Write a checkpoint, unless there is one of this step; `again` writes another one, of an agent that was
        changed from outside. If the disk is full, the run continues with the one before. Callbacks are not `told` of
        one that depends on the clock."""
        state = self.state
        if (state.saved_at == self.steps and not again) or (self.stop.asked and not self.steps):
            return  # there is one already, or nothing was learned: without one, the run resumes from its beginning
        if not self.outputs.keeps_checkpoints:
            return
        self.outputs.check_folder()
        started = time.perf_counter()
        score = state.best_evaluation if state.best_at == self.steps else None
        tree = self.tree()
        if state.why_inexact and not self._is_inexact:
            self._is_inexact = True
            self.outputs.warn(f"a resumed run will begin new episodes, so it will not be the same: {state.why_inexact}")
        self.records.flush()
        path = self.outputs.save(tree, score, started)
        if self._spare is not None:
            self._spare.saved(time.monotonic(), time.perf_counter() - started)
        if path is not None:
            state.saved_at = self.steps
            if told:
                self.callbacks.call("on_checkpoint", path)

    def tree(self) -> Tree:
        """All that a checkpoint of this moment holds."""
        tree = self.state.tree() | self.callbacks.tree()
        return {**tree, "envs": self.shared.with_all_envs(tree["envs"])}

    def _log(self) -> None:
        """Report the progress, unless it was reported at this step."""
        if self.clock.logged_at(self.steps):
            return
        self.outputs.tell_of_mirror()
        share = self.state.share_done(self.steps)
        rollout = {"episodes_in_rollout": self._episodes_in_rollout} if self.learner.on_policy else {}
        self.outputs.event(
            "progress",
            **self.episodes.metrics(),
            **rollout,
            **({"restarts": self.state.restarts} if self.state.restarts else {}),
            **(self.episodes.latest() if self.config.episodes is not None else {}),
            **self.outputs.system_figures(self.state.engine),
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

    def _keep_opponents(self, before: int, checkpoint_due: bool) -> None:
        """Copies of the agent become opponents."""
        try:
            self.curriculum.keep_opponents(before, self.steps, checkpoint_due, self.state.agent_tree)
        except RunError as error:
            self.outputs.warn(f"{error}; the run continues")

    def _announce_phase(self) -> None:
        announcement = self.curriculum.announcement(self.episodes.count)
        if announcement is not None:
            self.outputs.event("note", **announcement)
