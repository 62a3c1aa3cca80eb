"""Where the trials of a search train: in processes of this machine, or on a cluster. A cluster's module is imported
only for a search that asks for it, by its name: studies know nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Protocol

from rookery.config import RunConfig
from rookery.config.sections import ClusterOptions, check_local
from rookery.errors import ConfigError
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.study_config import divided
from rookery.studies.workers.supervisor import Event, Supervisor
from rookery.training.seeds.processes import Shares

CLUSTERS = {"ray": ("rookery.cluster.ray_search", "open_ray_workers")}


class Supervision(Protocol):
    """What a search sees of those who train its trials; see `Supervisor`."""

    signal: int

    @property
    def stopping(self) -> str: ...

    def stop(self, reason: str) -> None: ...

    def run(self, heard: Callable[[Event], None], tick: Callable[[], None]) -> None: ...


class WorkerPlace(Protocol):
    """The workers of a search."""

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
            "`search.workers` (--workers) is how many train at a time"
        )
    if config.search.population.size > 1 or config.search.population.exploit_every is not None:
        raise ConfigError(
            f'`cluster.kind` = "{config.cluster.kind}" trains trials one by one, and cannot be combined with '
            "`search.population`: leave one of them out"
        )
