"""A worker of a search: a process that claims trials and trains them, and then verifies the best.

It writes one line of JSON to standard output for whatever the supervisor should know. Everything else, such as the
traceback of a trial that failed, goes to standard error: workers/NAME.log in the study's folder.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rookery.config import RunConfig, build_config
from rookery.console import say
from rookery.errors import RunBusy, StorageLost
from rookery.gate import allow, reaches
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore, open_store
from rookery.studies.trials.part_training import INTERRUPTED, PartOutcome, Watcher, batches, train_parts, train_together
from rookery.studies.trials.plans import TrialPart
from rookery.studies.trials.pruning import PRUNED
from rookery.studies.workers.early_start import take_order
from rookery.studies.workers.limits import StopSignals, limit_gpu_memory, too_long
from rookery.studies.workers.part_helper import PartHelper, trains_one_by_one
from rookery.studies.workers.trial_claims import LEASE, OpenTrial, TrialClaims
from rookery.studies.workers.verification import VerificationWorker

POLL_SECONDS = 0.5  # while other workers have what is left
STOPPED, LOST = 143, 75  # exit statuses: by a signal; the storage is gone
TIME = "time"  # why a run is stopped

Done = Callable[[TrialPart, PartOutcome], None]


@dataclass(frozen=True)
class Task:
    """What a worker receives when it starts, as JSON."""

    study: str  # the study's folder
    config: dict[str, Any]  # of the study, with this search's section `search`
    name: str
    train: bool = True  # trials
    verify: bool = True


class TrialWorker(TrialClaims):
    """Claims and trains trials until none is left or it is asked to stop. While others train the last ones, it calls
    `meanwhile`, which returns whether it has done anything."""

    def __init__(
        self,
        store: StudyStore,
        base: RunConfig,
        name: str,
        stop: StopSignals,
        tell: Callable[..., None],
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(store, base, name, tell)
        self.stop, self._meanwhile = stop, meanwhile

    def run(self) -> None:
        while not self.stop:
            trials = self._claim()
            if trials:
                self._train(trials)
            elif self.all_done():
                return
            elif not self._meanwhile():
                time.sleep(POLL_SECONDS)

    # --- trials -------------------------------------------------------------------------------------------------

    def _claim(self) -> list[OpenTrial]:
        """As many trials as train side by side, or fewer. One whose worker died is alone: it may be the reason, and
        others are not to die with it."""
        trials: list[OpenTrial] = []
        size = self.search.population.size
        while len(trials) < size and not self.stop:
            trial = self.next_trial()
            if trial is None:
                break
            if size > 1 and trial.claim.lost_a_worker():
                if not trials:
                    return [trial]
                trial.claim.release()
                break
            trials.append(trial)
        return trials

    def _train(self, trials: Sequence[OpenTrial]) -> None:
        with self._kept(trials), self._timed(trials):
            try:
                while not self.stop and (open_trials := [trial for trial in trials if not trial.state]):
                    self._train_round(open_trials)
            except RunBusy as error:  # a worker that was thought dead is still in the run's folder
                say(str(error))
                time.sleep(POLL_SECONDS)
        self._after_a_stop([trial for trial in trials if not trial.state])

    def _train_round(self, trials: Sequence[OpenTrial]) -> None:
        """The next parts of all trials; those that have none left are finished."""
        others = self.other_values()
        owner: dict[str, OpenTrial] = {}
        parts: list[TrialPart] = []
        for trial in trials:
            mine = trial.next_parts(others)
            if not mine:
                self.record(trial, trial.finish)
            parts += mine
            owner |= {part.run_name: trial for part in mine}

        def done(part: TrialPart, outcome: PartOutcome) -> None:
            trial = owner[part.run_name]
            if outcome.state == INTERRUPTED and outcome.reason != PRUNED:
                self.stop.noticed()
            elif not trial.state:
                self.record(trial, lambda: trial.add(part, outcome))

        def is_wanted(part: TrialPart) -> bool:
            return not self.stop and not owner[part.run_name].state

        wanted = [part for part in parts if is_wanted(part)]
        self._train_parts(wanted, is_wanted, lambda part: owner[part.run_name].watcher(part), done)

    def _train_parts(
        self, parts: Sequence[TrialPart], is_wanted: Callable[[TrialPart], bool], watcher: Watcher, done: Done
    ) -> None:
        """Side by side, such as the folds of a trial; or one by one, where others may help."""
        if len(parts) == 1 or trains_one_by_one(self.base):
            if train_parts(parts, self.folder.workers, is_wanted, watcher, done):
                time.sleep(POLL_SECONDS)
            return
        for group in batches(parts):
            if self.stop:
                return
            outcomes = train_together(group, watcher, lambda: bool(self.stop))
            for part in group:
                if part.run_name in outcomes:
                    done(part, outcomes[part.run_name])

    def _after_a_stop(self, trials: Sequence[OpenTrial]) -> None:
        """Trials that took too long have failed; others are given back, to continue from their checkpoints."""
        for trial in trials:
            if self.stop.reason == TIME:
                self.record(trial, lambda trial=trial: trial.fail(too_long(self.search)))  # type: ignore[misc]
            elif not trial.claim.lost:
                self.release(trial)
        self.stop.clear(TIME)
        self.stop.clear(LEASE)

    @contextmanager
    def _kept(self, trials: Sequence[OpenTrial]) -> Iterator[None]:
        """Renew the leases within; a run whose lease is lost is stopped."""
        with ExitStack() as stack:
            for trial in trials:
                stack.enter_context(trial.claim.keep(lambda: self.stop.ask(LEASE)))
            yield

    @contextmanager
    def _timed(self, trials: Sequence[OpenTrial]) -> Iterator[None]:
        """Stop runs that take longer than a trial may; tells the supervisor what has begun."""
        limit = self.search.trial_timeout
        left = None if limit is None else max(0.0, limit - max(trial.seconds_so_far() for trial in trials))
        for trial in trials:
            self.tell(event="begin", trial=trial.number, settings=trial.claim.settings, seconds_left=left)
        timer = None if left is None else threading.Timer(left, self.stop.ask, args=(TIME,))
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()


def work(task: Task, out: TextIO) -> int:
    """Do a task; returns the exit status."""

    def tell(**facts: Any) -> None:
        out.write(json.dumps(facts) + "\n")
        out.flush()

    base = build_config(task.config)
    allow(reaches(base))  # the search that started this process has asked
    stop = StopSignals()
    try:
        with open_store(StudyFolder(Path(task.study)), base) as store:
            limit_gpu_memory(base)
            verification, helper = VerificationWorker(store, base, stop, tell), PartHelper(store, base, stop, tell)
            worker = TrialWorker(
                store, base, task.name, stop, tell, meanwhile=lambda: helper.train() or verification.train_ahead()
            )
            if task.train:
                worker.run()
            if task.verify and not stop:
                verification.run()
    except StorageLost as error:
        say(str(error))
        tell(event="lost", reason=str(error))
        return LOST
    return STOPPED if stop else 0


def main() -> None:
    """The worker process. What code prints does not reach the supervisor."""
    task = Task(**take_order())
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.exit(work(task, out))
