"""Where a run's envs are: on this machine, or on a cluster. A cluster's module is imported only for a run that asks for
it, by its name: training knows nothing of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from rookery.config import RunConfig
from rookery.config.sections import check_local, leads, needs_cluster
from rookery.errors import ConfigError
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.components import open_engine

LEARNERS = ("ppo", "sac", "td3", "dqn")  # that collectors can act for
CLUSTERS = {"ray": ("rookery.cluster.ray_envs", "open_ray_envs")}


def open_envs(run: ResolvedRun) -> AbstractContextManager[Any]:
    """The run's envs, closed in the end: an engine, or what stands for it while the envs step elsewhere."""
    if run.config.cluster.kind == "local":
        return open_engine(run)
    module, name = CLUSTERS[run.config.cluster.kind]
    return getattr(import_module(module), name)(run)


def with_cluster_device(config: RunConfig) -> RunConfig:
    """With the device of a learner whose envs step on a cluster, where the config leaves it open."""
    if config.cluster.kind == "local" or config.device != "auto":
        return config
    return config.model_copy(update={"device": "cpu"})


def check_cluster(run: ResolvedRun) -> None:
    """Refuse a run that a cluster cannot collect for."""
    config = run.config
    if config.cluster.kind == "local":
        check_local(config.cluster)
        for key in ("asynchronous", "evaluate_apart"):
            if getattr(config.cluster, key):
                raise needs_cluster(key)
        if config.cluster.learner_device != "cpu":
            raise ConfigError('`cluster.learner_device` is for runs on a cluster: give `device` = "cuda" instead')
        if config.cluster.learners > 1:
            raise ConfigError(
                '`cluster.learners` is for runs on a cluster: give `cluster.kind` = "ray" too, or `devices` = '
                f"{config.cluster.learners} for as many processes of this machine"
            )
        return
    start = f'`cluster.kind` = "{config.cluster.kind}"'
    if config.learner not in LEARNERS:
        known = ", ".join(LEARNERS)
        raise ConfigError(f'{start} is for {known}: {config.learner} trains with `cluster.kind` = "local"')
    if getattr(getattr(config, config.learner), "epsilon_decay", None) is not None:
        raise ConfigError(f"{start} cannot be combined with `dqn.epsilon_decay`: use `dqn.epsilon_steps`")
    if config.cluster.asynchronous and getattr(getattr(config, config.learner), "recurrent", None):
        raise ConfigError("`cluster.asynchronous` cannot be combined with `ppo.recurrent`: leave one of them out")
    if config.has_curriculum or config.num_envs == "adaptive":
        what = '`num_envs` = "adaptive"' if config.num_envs == "adaptive" else "phases, opponents or `reward_scale`"
        raise ConfigError(f'{start} cannot be combined with {what}: use `cluster.kind` = "local"')
    if config.devices not in (1, [0]):
        raise ConfigError(f"{start} cannot be combined with `devices` = {config.devices}: use `devices` = 1")
    _check_learners(run)
    if config.backend in ("cuda", "tensor") or config.device not in ("auto", "cpu"):
        raise ConfigError(
            f'{start} needs `device` = "cpu" and envs that step on CPUs; GPUs can compute the gradients of ppo: '
            '`cluster.learner_device` = "cuda"'
        )


def _check_learners(run: ResolvedRun) -> None:
    """Refuse several learners where one does it all."""
    config, count = run.config, run.config.cluster.learners
    if not leads(config.cluster):
        return
    start = f"`cluster.learners` = {count}" if count > 1 else '`cluster.learner_device` = "cuda"'
    if config.learner != "ppo":
        raise ConfigError(f"{start} is for ppo: {config.learner} has one learner, on the CPU")
    if config.cluster.asynchronous:
        raise ConfigError(f"{start} cannot be combined with `cluster.asynchronous`: leave one of them out")
    if count > run.num_rows:
        raise ConfigError(f"{start} needs as many envs, which are divided among them: `num_envs` is {run.num_envs}")
