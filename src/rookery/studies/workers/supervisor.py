"""Where the trials of a search train: in processes of this machine, which are started, watched, replaced when they die,
and stopped; or on a cluster, whose module is imported only for a search that asks for it, by its name."""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, Self

from rookery.config import RunConfig
from rookery.config.sections import ClusterOptions, check_local
from rookery.console import printable, say
from rookery.errors import ConfigError, StorageLost, StudyError
from rookery.files import own_folder
from rookery.forks import kill_group
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.study_config import divided
from rookery.studies.worker_count import WorkerCount
from rookery.studies.workers.early_start import start_worker
from rookery.studies.workers.limits import GRACE_SECONDS, Verdicts, memory_of, too_large, too_long
from rookery.training.seeds.processes import Shares

POLL_SECONDS = 0.2
MEMORY_SECONDS = 1.0  # between two measurements
MOST_DEATHS = 3  # of workers in one trial, or of workers that have trained nothing
LOST = 75  # exit status of a worker whose storage is gone

Event = Mapping[str, Any]
TAIL = 2000  # bytes of a log
CLUSTERS = {"ray": ("rookery.cluster.ray_search", "open_ray_workers")}


class Supervision:
    """What a search sees of those who train its trials. Within `with`, SIGINT and SIGTERM set `signal`, so that all are
    asked to save and end; a second SIGINT ends everything at once."""

    signal, stopping = 0, ""  # `stopping` is why they were asked to stop

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # elsewhere Python does not allow handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            self.kill()
            os._exit(128 + number)
        self.signal = number

    def kill(self) -> None:
        """End, at once, what would not end with this process."""

    def stop(self, reason: str) -> None:
        """Ask all to save and end. The next search continues what they have begun."""
        raise NotImplementedError

    def run(self, heard: Callable[[Event], None], tick: Callable[[], None]) -> None:
        """Until all has ended. `heard` is called with each event, and `tick` several times a second.

        Raises:
            StorageLost: The storage is gone.
            StudyError: Workers die before they have begun a trial.
        """
        raise NotImplementedError


class Supervisor(Supervision):
    """Supervises processes of this machine."""

    def __init__(
        self, folder: StudyFolder, base: RunConfig, workers: int, variables: Mapping[str, str], train: bool = True
    ) -> None:
        """`variables` are added to the environment of workers. Without `train`, trials are verified only."""
        self.folder, self.search = folder, base.search
        self.workers: list[WorkerProcess] = []
        self._events: queue.SimpleQueue[tuple[WorkerProcess, Event | None]] = queue.SimpleQueue()
        self._variables, self._deaths, self._memory_due = dict(variables), Counter[int](), 0.0
        self._verdicts = Verdicts(own_folder(folder.workers))
        self._idle_deaths = 0
        self._names = (f"{os.getpid()}-{k}" for k in itertools.count(1))
        self._count, self._is_open = WorkerCount(base, workers), train and base.search.jobs is None
        self._task = {
            "study": str(folder.path.absolute()), "config": base.model_dump(mode="json", exclude_unset=True),
            "train": train, "verify": base.search.verify > 0,
        }  # fmt: skip

    def __enter__(self) -> Self:
        super().__enter__()
        for name in itertools.islice(self._names, self._count.count):
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()  # an error passes: nothing may be left running
        super().__exit__()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    def stop(self, reason: str) -> None:
        self.stopping = self.stopping or reason
        for worker in self.workers:
            worker.stop()

    def run(self, heard: Callable[[Event], None], tick: Callable[[], None]) -> None:
        while self.workers:
            if self.signal and not self.stopping:
                self.stop("interrupted")
            try:
                worker, event = self._events.get(timeout=POLL_SECONDS)
            except queue.Empty:
                self._check_limits()
                self._correct_count()
                tick()
                continue
            if event is None:
                self._ended(worker)
            else:
                worker.note(event, GRACE_SECONDS)
                if event["event"] == "lost":
                    raise StorageLost(event["reason"])
                heard(event)

    def _correct_count(self) -> None:
        """Start workers, or ask the latest to give their trials back."""
        if not self._is_open or self.stopping:
            return
        staying, before = [worker for worker in self.workers if not worker.is_leaving], self._count.count
        wanted = self._count.look(all(worker.trials for worker in staying))
        for worker in staying[wanted:] if wanted < before else []:
            worker.is_leaving = True
            worker.stop()
        for name in itertools.islice(self._names, max(0, wanted - before)):
            self._start(name)

    # --- limits and deaths --------------------------------------------------------------------------------------

    def _check_limits(self) -> None:
        now = time.monotonic()
        for worker in self.workers:
            for number in worker.overdue(now):
                self._give_up(worker, number, too_long(self.search))
        limit = self.search.trial_memory
        if limit is None or now < self._memory_due:
            return
        self._memory_due = now + MEMORY_SECONDS
        for worker in self.workers:
            used = memory_of(worker.process.pid) if worker.trials else 0
            if used > limit and len(worker.trials) > 1:
                worker.kill()  # each is trained alone then, and the one that is too large fails
            elif used > limit:
                self._give_up(worker, next(iter(worker.trials)), too_large(self.search, used))

    def _give_up(self, worker: WorkerProcess, number: int, reason: str) -> None:
        """Fail a trial by killing its worker; the one that replaces it records the reason."""
        self._verdicts.give(number, reason)
        self._deaths[number] = 0
        worker.kill()

    def _ended(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        status = worker.status or 0
        if status == 0 or self.stopping or worker.is_leaving:
            return
        for number in worker.trials:
            self._deaths[number] += 1
            if self._deaths[number] >= MOST_DEATHS:
                self._verdicts.give(number, f"{MOST_DEATHS} workers died while they trained it ({_how(status)})")
            elif not worker.is_killed:
                say(
                    f"the worker of trial {number} died ({_how(status)}): another one continues from the last "
                    f"checkpoint; its log is {printable(worker.log)}"
                )
        self._idle_deaths = 0 if worker.began_any else self._idle_deaths + 1
        if self._idle_deaths >= MOST_DEATHS:
            raise StudyError(f"workers end before they begin a trial ({_how(status)}):\n{worker.last_words()}")
        self._start(worker.name)

    def _start(self, name: str) -> None:
        task = {**self._task, "name": name}
        log = self.folder.workers / f"worker-{name.rpartition('-')[2]}.log"
        self.workers.append(WorkerProcess(name, task, log, self._events, self._variables))


def _how(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


class WorkerProcess:
    """One worker. Its events are put into a queue, each with the worker; None stands for its end."""

    def __init__(
        self, name: str, task: Event, log: Path, events: queue.SimpleQueue[Any], more: Mapping[str, str]
    ) -> None:
        """`more` are environment variables, such as the password of a database."""
        self.name, self.log, self._events = name, log, events
        self.trials: dict[int, float | None] = {}  # those it trains: when it should have ended, by the monotonic clock
        self.began_any = self.is_leaving = self.is_killed = False
        self.process = start_worker(task, log, more)
        threading.Thread(target=self._listen, name=f"rookery {name}", daemon=True).start()

    @property
    def status(self) -> int | None:
        """The exit status; negative for a signal, None while it runs."""
        return self.process.poll()

    def note(self, event: Mapping[str, Any], grace: float) -> None:
        """Keep up with what it trains."""
        number = event.get("trial")
        if event["event"] in ("begin", "help"):  # the death of one that helps counts as one in that trial
            left = event.get("seconds_left")
            self.trials[event["trial"]] = None if left is None else time.monotonic() + left + grace
            self.began_any = True
        elif event["event"] in ("end", "helped") and number in self.trials:
            del self.trials[event["trial"]]

    def overdue(self, now: float) -> list[int]:
        """Trials that should have ended."""
        return [number for number, end in self.trials.items() if end is not None and now > end]

    def stop(self) -> None:
        """Ask it to save and end."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with the processes of its envs, and wait until it is gone."""
        self.is_killed = True
        kill_group(self.process)
        self.process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        with suppress(OSError), open(self.log, "rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL))
            return file.read().decode(errors="replace").strip()
        return ""

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with suppress(ValueError):
                    self._events.put((self, json.loads(line)))
        self.process.wait()
        self._events.put((self, None))


class WorkerPlace(Protocol):
    shares: Shares  # how many trials are trained at a time, and the cores of each

    def supervise(self, store: StudyStore, base: RunConfig, train: bool) -> AbstractContextManager[Supervision]:
        """Train and verify trials; without `train`, verify only."""


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, shares: Shares, variables: Mapping[str, str]) -> None:
        """`variables` are added to the environment of workers, such as the password of a database."""
        self.shares, self._variables = shares, variables

    def supervise(self, store: StudyStore, base: RunConfig, train: bool) -> Supervisor:
        return Supervisor(store.folder, base, self.shares.jobs, self._variables, train=train)


@contextmanager
def open_workers(cluster: ClusterOptions, base: RunConfig, variables: Mapping[str, str]) -> Iterator[WorkerPlace]:
    """The workers of a search with this configuration; `variables` are those of `LocalWorkers`."""
    if cluster.kind == "local":
        yield LocalWorkers(divided(base), variables)
        return
    module, name = CLUSTERS[cluster.kind]
    with getattr(import_module(module), name)(cluster, base) as place:
        yield place


def without_cluster(config: RunConfig) -> RunConfig:
    """The configuration of runs that each train on one machine."""
    changed = config.model_copy(update={"cluster": ClusterOptions()})
    changed.model_fields_set.discard("cluster")
    return changed


def check_cluster_search(config: RunConfig) -> None:
    """Refuse a search whose trials cannot be trained one by one on a cluster."""
    if config.cluster.kind == "local":
        check_local(config.cluster)
        return
    if config.cluster.nodes is not None:
        raise ConfigError(
            "`cluster.nodes` is the number of collectors of one run, and every trial of a search trains on one node: "
            "`search.jobs` (--jobs) is how many train at a time"
        )
    if config.search.population.size > 1 or config.search.population.exploit_every is not None:
        raise ConfigError(
            f'`cluster.kind` = "{config.cluster.kind}" trains trials one by one, and cannot be combined with '
            "`search.population`: leave one of them out"
        )
