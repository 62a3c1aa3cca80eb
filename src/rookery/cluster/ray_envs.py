"""A run's envs on a Ray cluster: what `on = "ray"` means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from rookery.cluster.ray_transport import open_ray
from rookery.cluster.remote_envs import RemoteEnvs
from rookery.training.resolve.resolved_run import ResolvedRun


@contextmanager
def open_ray_envs(run: ResolvedRun) -> Iterator[RemoteEnvs]:
    """On the cluster that the config names, or on one that is started here and ends with the run."""
    with open_ray(run.config.cluster.address) as transport, closing(RemoteEnvs(run, transport)) as envs:
        yield envs
