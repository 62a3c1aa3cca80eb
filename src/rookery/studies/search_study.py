"""`search`: from a configuration to a study with a verified best trial."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym

from rookery.config import RunConfig, user_config
from rookery.config.fields import keys_of
from rookery.config.layers import merge
from rookery.config.run_size import check_search_size
from rookery.console import say, silent
from rookery.errors import RookeryError, StorageLost, UsageError, WorldError
from rookery.monitor.alerts import Alerts
from rookery.studies.population.pbt import Scheduler
from rookery.studies.population.pbt_study import train_population_study
from rookery.studies.search_screen import SearchScreen
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore, open_store
from rookery.studies.storage.study_view import StudyReader, StudyView
from rookery.studies.storage.trial_view import STUDY_CONFIG
from rookery.studies.study_config import divided, study_config, with_share
from rookery.studies.study_result import StudyResult, best_trials, front_of
from rookery.studies.trials.plans import metric_of, plan_for
from rookery.studies.trials.pruning import pruning_report
from rookery.studies.workers.supervisor import (
    Event,
    LocalWorkers,
    Supervision,
    WorkerPlace,
    check_cluster_search,
    open_workers,
    without_cluster,
)
from rookery.training.resolve.session_world import session_world
from rookery.user_code import OBJECT, end_import

FAILED = 1  # exit status
WORKERS_ARE_JOBS = "`workers` of a search is called `jobs` now; workers step the envs of a run"
MOST_RESERVED = 0.5  # share of the timeout that is kept for verification
REREAD_SECONDS = 5.0  # between two readings of the study, where nothing was heard: others may work on it too
PAUSE = 0.5  # seconds between two tries to read a study whose database does not answer


def search(
    world: str | Path | Mapping[str, Any] | RunConfig | Callable[..., Any] | gym.Env | None = None,
    /,
    *,
    n_trials: int | None = None,
    study_name: str | None = None,
    jobs: int | None = None,
    storage: str | None = None,
    timeout: float | str | None = None,
    sampler: str | None = None,
    studies_dir: str | Path | None = None,
    space: Mapping[str, Any] | None = None,
    search: Mapping[str, Any] | None = None,
    config_path: str | Path | None = None,
    **options: Any,
) -> StudyResult:
    """Search for good settings; returns the result, with the best verified trial. The same call again continues.

    Args:
        world: A world, or a configuration: its path, a dict or a `RunConfig`, as `rookery.train` takes it. Worker
            processes must find the world, so that it cannot be a lambda or an env object.
        n_trials: Number of trials of the study, with those of earlier searches.
        study_name: Name of the study; made of world and learner if omitted.
        jobs: How many trials are trained at the same time, each in a process of its own.
        storage: A SQLite file or the URL of a database; if omitted, a file in the study's folder.
        timeout: Time for everything, such as "20h" or a number of seconds: trials end early enough to verify the best.
        sampler: "tpe", "gp", "cmaes", "random" or "grid".
        studies_dir: Folder that contains one folder per study.
        space: What varies, such as `{"ppo.learning_rate": {"log": [1e-5, 1e-2]}}`; a space of the learner's if omitted.
        search: Further keys of the section `search` of a configuration; most can be given alone, such as `pruner`.
        config_path: The path of a configuration, instead of `world`.
        options: Other keys of the configuration, as for `rookery.train`, such as `steps=20_000` or `num_envs=8`.
    """
    end_import("rookery.search")
    if "workers" in options:
        say(WORKERS_ARE_JOBS)
        jobs = options.pop("workers") if jobs is None else jobs
    named = {
        "n_trials": n_trials, "study_name": study_name, "jobs": jobs, "storage": storage, "timeout": timeout,
        "sampler": sampler, "studies_dir": None if studies_dir is None else str(studies_dir), "space": space,
    }  # fmt: skip
    further = {key: options.pop(key) for key in {*keys_of("search")} & {*options} - {*keys_of("")}}
    given = {**(search or {}), **further, **{key: value for key, value in named.items() if value is not None}}
    if world is None and config_path is None:
        world = options.pop("world", None)
    if (world is None) == (config_path is None):
        raise UsageError("rookery.search() takes a world, such as 'CartPole-v1', or `config_path`: give one of them")
    source = world if config_path is None else Path(config_path)
    with silent(options.get("verbose") in (False, 0)):
        config = _config(source, given, dict(options))
    with silent(not config.monitor.verbose):
        return run_search(config)


def _config(what: Any, given: dict[str, Any], options: dict[str, Any]) -> RunConfig:
    if isinstance(what, RunConfig):
        layers = what.model_dump(mode="json", exclude_unset=True), {"search": given}, options
        return user_config(merge(*layers))
    if not isinstance(what, (str, Mapping, Path)):
        found = session_world(what)
        if found.name.startswith(OBJECT):
            raise WorldError(
                f"worker processes cannot find {found.name.removeprefix(OBJECT)}: give a class or function at the top "
                "of a file, or its name, such as my_file.py:MyEnv"
            )
        what = found.name
        options = {**({} if found.num_envs is None else {"num_envs": found.num_envs}), **options}
        if found.options:
            options["world_options"] = {**found.options, **options.get("world_options", {})}
    return user_config(what, **options, **({"search": given} if given else {}))


def run_search(config: RunConfig) -> StudyResult:
    """Search as a valid configuration says."""
    check_cluster_search(config)
    check_search_size(config)
    cluster, config = config.cluster, without_cluster(config)
    recorded = _recorded(config)
    base = study_config(config, recorded)
    if base.search.population.exploit_every is not None:
        return _population_search(base, config.search.storage)
    space = SearchSpace.of(base)
    first = space.first_trials(base)  # before anything is written: it may be rejected
    if base.search.sampler == "grid" and space.size is not None:  # which would begin again
        base = _with_search(base, n_trials=min(base.search.n_trials, space.size + len(first)))
    plan_for(base).first_parts(base)  # the same check, such as with too few bars for its folds
    if metric_of(base) == "sharpe_difference":
        from rookery.studies.trials.market_plan import least_shown

        say(least_shown(base))
    folder = _folder(base)
    place = folder.place(base.search.storage)
    base = _with_search(base, study_name=folder.name)
    if base.search.storage is not None:  # without a password, which workers get by their environment
        base = _with_search(base, storage=place.url if place.file is None else str(place.file))
    with (
        open_store(folder, base, config.search.storage) as store,
        open_workers(cluster, base, place.environment) as workers,
    ):
        store.enqueue(first)
        return StudySearch(store, base, workers).run()


def _population_search(base: RunConfig, storage: str | None) -> StudyResult:
    """Population-based training: one population, whose members are the trials."""
    Scheduler(base)  # before anything is written: it may be rejected
    base = _with_search(base, n_trials=base.search.population.size, verify=0)
    folder = _folder(base)
    place = folder.place(base.search.storage)
    base = _with_search(base, study_name=folder.name)
    say(f"{folder.name}: a population of {base.search.population.size}, in {folder.path}")
    with open_store(folder, base, storage) as store:
        found = StudySearch(store, base, LocalWorkers(divided(base), place.environment))
        is_complete = train_population_study(folder, base, storage)
        return found.result(0 if is_complete else signal.SIGINT, "finished" if is_complete else "interrupted")


class StudySearch:
    """One call of `rookery search`: its workers, its clock and its screen."""

    def __init__(self, store: StudyStore, base: RunConfig, workers: WorkerPlace) -> None:
        self.store, self.base, self.folder, self.search = store, base, store.folder, base.search
        self._workers = workers
        self._reader = StudyReader.find(self.folder.path, storage=None)
        self._known: StudyView | None = None
        self._look_again = 0.0
        self._began = time.monotonic()
        self._failed_here, self._finished_any = Counter[str](), False
        self.reason = "finished"

    def run(self) -> StudyResult:
        jobs = self._workers.shares.jobs
        panel, verbose = self.base.monitor.panel is not False, self.base.monitor.verbose
        say(f"{self.folder.name}: {self.search.n_trials} trials, {jobs} at a time, in {self.folder.path}")
        signalled = 0
        try:
            with SearchScreen(self.search.n_trials, panel, verbose) as screen:
                signalled = self._supervised(screen, jobs, train=True)
                if self.reason == "timeout" and not self._all_verified():
                    signalled = self._supervised(screen, jobs, train=False)
        except RookeryError as error:
            self._alert(str(error))
            raise
        if self.reason not in ("finished", "timeout", "interrupted"):
            self._alert(self.reason)
        return self.result(signalled, self.reason)

    def _supervised(self, screen: SearchScreen, workers: int, train: bool) -> int:
        """Train and verify, or verify only; returns the signal that ended it, or 0."""
        base = with_share(self.base, self._workers.shares)
        with self._workers.supervise(self.store, base, train) as supervisor:

            def heard(event: Event) -> None:
                self._look_again = 0.0
                if event["event"] == "end":
                    self._count(event, supervisor)
                screen.heard(event, self._view())

            def tick() -> None:
                if train and self._time_is_up(workers):
                    supervisor.stop("timeout")
                if screen.due:
                    screen.draw(self._view())

            supervisor.run(heard, tick)
            self.reason = supervisor.stopping or (self.reason if not train else "finished")
            return supervisor.signal

    def _count(self, event: Event, supervisor: Supervision) -> None:
        """Stop a search in which every trial fails."""
        if event["state"] in ("finished", "pruned"):
            self._finished_any = True
        elif event["state"] == "failed":
            self._failed_here[event["reason"]] += 1
            if not self._finished_any and sum(self._failed_here.values()) >= self.search.max_failures:
                view = self._view()
                if not view.of_state("finished", "pruned"):
                    reason, count = self._failed_here.most_common(1)[0]
                    supervisor.stop(
                        f"all {len(view.of_state('failed'))} trials failed (search.max_failures = "
                        f"{self.search.max_failures}); {count} times: {reason}; tracebacks are in {self.folder.workers}"
                    )

    def _time_is_up(self, workers: int) -> bool:
        """Whether trials must end now, so that the best can be verified in time."""
        timeout = self.search.timeout
        if timeout is None:
            return False
        used = time.monotonic() - self._began
        return used >= timeout or used >= timeout - min(self._verification_seconds(workers), MOST_RESERVED * timeout)

    def _verification_seconds(self, workers: int) -> float:
        """About how long verification will take, by the seconds of the runs so far."""
        parts = [part for trial in self._view().of_state("finished") for part in trial.parts.values()]
        seconds = [part["seconds"] for part in parts if part.get("seconds")]
        runs = self.search.verify * self.search.verify_seeds
        return runs / workers * sum(seconds) / len(seconds) if seconds else 0.0

    def _all_verified(self) -> bool:
        """Whether workers for the verification would be started in vain: each takes seconds of a core for that."""
        view = self._read()
        best = sorted(view.of_state("finished"), key=lambda trial: (-trial.values[0], trial.number))
        return all(trial.number in view.verified for trial in best[: self.search.verify])

    def _view(self) -> StudyView:
        """The study as it was a moment ago, or when its database answered last: workers wait for it, and end the search
        if it is lost."""
        now = time.monotonic()
        if self._known is None:
            self._known = self._read()
        elif now < self._look_again:
            return self._known
        else:
            with suppress(StorageLost):
                self._known = self._reader.read()
        self._look_again = now + REREAD_SECONDS
        return self._known

    def _read(self) -> StudyView:
        """The study now, as soon as its database answers."""
        patience = self.store.storage.patience
        give_up = time.monotonic() + patience.seconds
        while True:
            try:
                return self._reader.read()
            except StorageLost:
                if time.monotonic() >= give_up or patience.is_gone:
                    raise
            time.sleep(PAUSE)

    def _alert(self, text: str) -> None:
        Alerts.from_environment().send(
            "search-failed", text, {"study": self.folder.name, "path": str(self.folder.path)}
        )

    def result(self, signalled: int, reason: str) -> StudyResult:
        """What has become of the study; `signalled` is the signal that ended the search, or 0."""
        self.reason = reason
        view = self._read()
        best, verified = best_trials(view)
        is_good = self.reason in ("finished", "timeout") and (best is not None or self.reason == "timeout")
        return StudyResult(
            study_name=self.folder.name,
            path=self.folder.path,
            storage=self.folder.storage,
            finished=len(view.of_state("finished")),
            running=len(view.of_state("running")),
            failed=len(view.of_state("failed")),
            pruned=len(view.of_state("pruned")),
            best=best,
            verified=verified,
            front=front_of(view),
            pruning=pruning_report(self.store.study.get_trials(deepcopy=False), self.base.steps),
            seconds=time.monotonic() - self._began,
            reason=self.reason if best is not None or self.reason != "finished" else _nothing(view),
            exit_code=128 + signalled if signalled else 0 if is_good else FAILED,
        )


def _nothing(view: StudyView) -> str:
    failed = view.of_state("failed")
    return f"no trial has finished; the last one failed: {failed[-1].reason}" if failed else "no trial has finished"


def _recorded(config: RunConfig) -> Mapping[str, Any] | None:
    """The configuration of the study that is continued; None if there is none, or its name is not known yet."""
    name = config.search.study_name
    folder = None if name is None else StudyFolder(Path(config.search.studies_dir) / name)
    if folder is None or not folder.exists:
        return None
    with StudyStore.open(folder, config.search.storage) as store:
        found = store.study.user_attrs.get(STUDY_CONFIG)
    return found if isinstance(found, Mapping) else None


def _folder(base: RunConfig) -> StudyFolder:
    name = base.search.study_name
    return StudyFolder.create(base.search.studies_dir, name or _usual_name(base), base.search.storage)


def _usual_name(base: RunConfig) -> str:
    """
    >>> _usual_name(RunConfig(world="/tmp/my_env.py:MyEnv", learner="ppo"))
    'my_env.py-MyEnv-ppo'
    """
    import re

    world = re.sub(r"[^A-Za-z0-9_.+=,@-]+", "-", base.world.rpartition("/")[2]).strip("-.")[:60]
    return f"{world or 'world'}-{base.learner}"


def _with_search(base: RunConfig, **changes: Any) -> RunConfig:
    return base.model_copy(update={"search": base.search.model_copy(update=changes)})
