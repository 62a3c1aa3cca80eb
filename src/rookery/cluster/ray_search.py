"""A search's trials on a Ray cluster: what `rookery search --on ray` means."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rookery.cluster.ray_transport import RayTransport, load_ray, open_ray
from rookery.cluster.runner_pool import RunnerPool, RunnerTransport
from rookery.cluster.trial_runner import SharedMark, TrialRunner
from rookery.cluster.trial_supervisor import TrialSupervisor
from rookery.config import RunConfig
from rookery.config.sections import ClusterOptions
from rookery.console import say
from rookery.files import own_folder, replace_file
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore
from rookery.training.seeds.processes import CORES_OF_PROCESSES, Shares
from rookery.training.storage.trust import code_in

LOG = "cluster.log"


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
        runners = RayRunners(load_ray(), cores, int(on_gpu), base.search.workers)
        jobs = max(1, min(runners.capacity(), base.search.n_trials))
        yield ClusterWorkers(runners, Shares(jobs, cores))


def _mark(folder: StudyFolder) -> SharedMark:
    """A new token in the study's folder."""
    mark = SharedMark(str((folder.workers / "shared-disk").absolute()), uuid.uuid4().hex)
    replace_file(folder.workers / "shared-disk", [mark.token.encode()])
    return mark
