"""A search's trials on a Ray cluster: what `rookery search --on ray` means."""

from __future__ import annotations

import math
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from rookery.cluster.ray_start import load_ray, open_ray
from rookery.cluster.ray_transport import RayTransport
from rookery.cluster.runner_pool import Job, RunnerPool, RunnerTransport
from rookery.cluster.trial_runner import SharedMark, TrialRunner
from rookery.config import RunConfig
from rookery.config.sections import ClusterOptions
from rookery.console import say
from rookery.files import own_folder, replace_file
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.trials.part_training import INTERRUPTED, PartOutcome
from rookery.studies.trials.plans import TrialPart, plan_for
from rookery.studies.trials.pruning import BY_EVALUATIONS, PRUNED
from rookery.studies.workers.limits import GRACE_SECONDS, too_large, too_long
from rookery.studies.workers.supervisor import Event, Supervision
from rookery.studies.workers.trial_claims import LEASE, OpenTrial, TrialClaims
from rookery.studies.workers.verification import (
    add_value,
    failed_facts,
    is_verified,
    known_value,
    parts_to_verify,
    verified_facts,
)
from rookery.training.seeds.processes import CORES_OF_PROCESSES, Shares
from rookery.training.storage.trust import code_in

LOG = "cluster.log"
POLL_SECONDS = 0.2


class RayRunners(RayTransport):
    """Runners as actors of Ray, which places them where cores are free; see `RunnerTransport`."""

    def __init__(self, ray: Any, cores: int, gpus: int, most: int | None) -> None:
        """`cores` and `gpus` are those of one runner; `most` is the number of runners that the user wants."""
        super().__init__(ray)
        self.cores, self._gpus, self._most = cores, gpus, most
        options = {"num_cpus": cores, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 3}
        self._runner = ray.remote(**options)(TrialRunner)

    def capacity(self) -> int:
        if self._most is not None:  # also where nodes are yet to come: an autoscaler starts them for those who wait
            return self._most
        rooms = [self._room(node["Resources"]) for node in self._nodes().values()]
        return max(1, sum(rooms))

    def _room(self, resources: dict[str, float]) -> int:
        room = int(resources.get("CPU", 0)) // self.cores
        return min(room, int(resources.get("GPU", 0)) // self._gpus) if self._gpus else room

    def start(self, index: int = 0) -> Any:
        return self._runner.remote()

    def call(self, handle: Any, method: str, *args: Any) -> Any:
        """As it is, not packed: what runners get and return has no arrays, and archives are bytes."""
        return getattr(handle, method).remote(*args)

    def result(self, call: Any, seconds: float | None) -> Any:
        return self._returned(call, seconds)

    def wait(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        done, _ = self._ray.wait(list(calls), num_returns=1, timeout=seconds, fetch_local=False)
        if done:
            done, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0, fetch_local=False)
        return list(done)


class ClusterWorkers:
    """The workers of a search on a cluster."""

    def __init__(self, transport: RunnerTransport, shares: Shares) -> None:
        self.shares, self._transport = shares, transport

    @contextmanager
    def supervise(self, store: StudyStore, base: RunConfig, train: bool) -> Iterator[TrialSupervisor]:
        log = own_folder(store.folder.workers) / LOG

        def note(text: str) -> None:
            with open(log, "a") as file:
                file.write(text + "\n")
            if "\n" not in text:  # tracebacks are in the log alone
                say(text)

        code = [name.rpartition(":")[0] for name in code_in(base)]
        pool = RunnerPool(self._transport, _mark(store.folder), code, note)
        try:
            with TrialSupervisor(store, base, pool, train) as supervisor:
                yield supervisor
        finally:
            pool.close()


@contextmanager
def open_ray_workers(cluster: ClusterOptions, base: RunConfig) -> Iterator[ClusterWorkers]:
    """On the cluster that the config names, or on one that is started here and ends with the search."""
    with open_ray(cluster.address) as connected:
        on_gpu = base.device not in ("auto", "cpu")
        cores = CORES_OF_PROCESSES if base.backend == "process" else 1
        cores = max(1, min(cores, *connected.slots(None)))
        runners = RayRunners(load_ray(), cores, int(on_gpu), base.search.jobs)
        jobs = max(1, min(runners.capacity(), base.search.n_trials))
        yield ClusterWorkers(runners, Shares(jobs, cores))


def _mark(folder: StudyFolder) -> SharedMark:
    """A new token in the study's folder."""
    mark = SharedMark(str((folder.workers / "shared-disk").absolute()), uuid.uuid4().hex)
    replace_file(folder.workers / "shared-disk", [mark.token.encode()])
    return mark


@dataclass(eq=False)
class _Training:
    """A trial whose parts are out."""

    trial: OpenTrial
    lease: ExitStack
    deadline: float
    jobs: list[Job] = field(default_factory=list)


class TrialSupervisor(Supervision):
    """Supervises a search whose trials train on a cluster. It alone has the study: it claims trials, gives out their
    parts and records what comes back, so that neither a database nor a disk must be reached from the nodes."""

    def __init__(self, store: StudyStore, base: RunConfig, pool: RunnerPool, train: bool = True) -> None:
        self._store, self._base, self._search, self._pool, self._train = store, base, base.search, pool, train
        self._claims = TrialClaims(store, base, f"ray-{os.getpid()}", self._tell)
        self._heard: Callable[[Event], None] = lambda event: None
        self._training: list[_Training] = []
        self._stop_by = math.inf

    def __exit__(self, *_: object) -> None:
        self._pool.cancel(self._pool.jobs)
        for training in self._training:
            training.lease.close()
        super().__exit__()

    def stop(self, reason: str) -> None:
        if self.stopping:
            return
        self.stopping, self._stop_by = reason, time.monotonic() + GRACE_SECONDS
        running = self._pool.running
        self._pool.stop(self._pool.jobs, "interrupted")
        for training in list(self._training):
            training.jobs = [job for job in training.jobs if job in running]
            self._go_on(training)

    def run(self, heard: Callable[[Event], None], tick: Callable[[], None]) -> None:
        """Until all trials have ended and the best are verified."""
        self._heard = heard
        if self._train:
            self._turn_until(self._trials_done, self._begin_trials, tick)
        if self._search.verify > 0 and not self.stopping:
            self._begin_verification()
            self._turn_until(lambda: not self._pool.jobs, lambda: None, tick)

    def _turn_until(self, done: Callable[[], bool], feed: Callable[[], None], tick: Callable[[], None]) -> None:
        while True:
            if self.signal:
                self.stop("interrupted")
            if self.stopping and (not self._pool.jobs or time.monotonic() > self._stop_by):
                return
            if not self.stopping:
                if done():
                    return
                feed()
            self._pool.poll(POLL_SECONDS)
            self._check_limits()
            tick()

    # --- trials -------------------------------------------------------------------------------------------------

    def _trials_done(self) -> bool:
        return not self._training and self._claims.all_done()

    def _begin_trials(self) -> None:
        while self._pool.free > 0 and (trial := self._claims.next_trial()) is not None:
            lease = ExitStack()
            lease.enter_context(trial.claim.keep())
            limit = self._search.trial_timeout
            left = None if limit is None else max(0.0, limit - trial.seconds_so_far())
            self._tell(event="begin", trial=trial.number, settings=trial.claim.settings, seconds_left=left)
            training = _Training(trial, lease, math.inf if left is None else time.monotonic() + left)
            self._training.append(training)
            self._go_on(training)

    def _go_on(self, training: _Training) -> None:
        """Once all parts that are out have come back: the next ones, or the trial's end."""
        trial = training.trial
        if training.jobs and not trial.state:
            return
        if not trial.state and not self.stopping:
            parts = trial.next_parts(self._claims.other_values())
            for part in parts:
                self._submit(training, part)
            if parts:
                return
            self._claims.record(trial, trial.finish)
        elif not trial.state and not trial.claim.lost:
            self._claims.release(trial)
        self._pool.cancel(training.jobs)  # of a trial that has failed already
        training.lease.close()
        self._training.remove(training)

    def _submit(self, training: _Training, part: TrialPart) -> None:
        trial = training.trial

        def done(outcome: PartOutcome) -> None:
            training.jobs.remove(job)
            if trial.claim.lost:
                trial.state = LEASE
            elif outcome.state != INTERRUPTED or outcome.reason == PRUNED:
                self._claims.record(trial, lambda: trial.add(part, outcome))
            self._go_on(training)

        def evaluated(step: int, value: float) -> bool:
            if trial.state or trial.watcher(part) is None:
                return False
            trial.claim.report(value, step)
            return step < part.config.steps and trial.claim.should_prune()

        job = Job(part, done, evaluated) if self._search.pruner in BY_EVALUATIONS else Job(part, done)
        training.jobs.append(job)
        self._pool.submit(job)

    def _check_limits(self) -> None:
        now, limit = time.monotonic(), self._search.trial_memory
        for training in list(self._training):
            memory = max((job.memory for job in training.jobs), default=0)
            if now > training.deadline:
                self._give_up(training, too_long(self._search))
            elif limit is not None and memory > limit:
                self._give_up(training, too_large(self._search, memory))

    def _give_up(self, training: _Training, reason: str) -> None:
        self._claims.record(training.trial, lambda: training.trial.fail(reason))
        self._go_on(training)

    # --- verification -------------------------------------------------------------------------------------------

    def _begin_verification(self) -> None:
        for number, parts in parts_to_verify(self._store, self._base).items():
            if is_verified(self._store.study, number):
                continue
            missing = [part for part in parts if known_value(part) is None]
            for part in missing:
                self._verify(number, parts, part)
            if not missing:
                self._note_verified(number, parts)

    def _verify(self, number: int, parts: list[TrialPart], part: TrialPart) -> None:
        plan = plan_for(self._base)

        def done(outcome: PartOutcome) -> None:
            if outcome.state == INTERRUPTED:
                return
            reason = add_value(plan, part, outcome)
            if reason:
                self._store.set_verified(number, failed_facts(parts, reason))
            else:
                self._note_verified(number, parts)

        self._tell(event="verify", trial=number, part=part.name)
        self._pool.submit(Job(part, done))

    def _note_verified(self, number: int, parts: list[TrialPart]) -> None:
        facts = verified_facts(plan_for(self._base), parts)
        if facts is not None:
            self._store.set_verified(number, facts)
            self._tell(event="verified", trial=number, value=facts["iqm"])

    def _tell(self, **facts: Any) -> None:
        self._heard(facts)
