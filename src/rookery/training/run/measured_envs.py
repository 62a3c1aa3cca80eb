"""`num_envs = "auto"` on a GPU: some rollouts and updates with more and more envs, until more are not faster, would not
fit into the memory, or would leave the run too few updates.

The result is remembered for a world, its learner's options and the GPU: the same command makes the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

import torch

from rookery.config import RunConfig
from rookery.config.sections import check_local, leads, needs_cluster
from rookery.console import meanwhile, say, size_text
from rookery.errors import ConfigError
from rookery.learners.registry import specs
from rookery.training.resolve.engine_choice import (
    has_own_gpu_recipe,
    most_envs,
    recall_useful_envs,
    remember_useful_envs,
    shorter_rollout,
)
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.components import make_learner, open_engine
from rookery.training.run.out_of_memory import is_out_of_memory, release_memory
from rookery.training.run.shared_run import device_names
from rookery.training.run.training_state import TrainingState

FEWEST = 256  # envs to begin with
GROWTH = 4
MIN_GAIN = 1.2  # of steps/s, for so many times as many envs to be worth it
ENOUGH = 0.9  # of the highest rate: the fewest envs that reach it are taken
MEMORY_SHARE = 0.6  # of the free memory; the rest is for evaluations and for other programs
BUDGET = 8.0  # seconds after which no further number is tried
TIMED = 0.2  # seconds of rollouts and updates that are timed


class EnvsTrial(NamedTuple):
    """What so many envs have shown."""

    envs: int
    rate: float  # steps/s
    memory: int  # bytes of the GPU


def with_measured_envs(run: ResolvedRun, asked: RunConfig) -> ResolvedRun:
    """A run on a GPU with as many envs as it can use well, if the configuration that was `asked` for leaves that open
    and no recipe knows it."""
    if not _is_open(run, asked):
        return run
    size = len(device_names(run.config))
    most = max(1, (most_envs(run.config) or run.num_envs) // size)
    facts = _facts(run, most)
    num_envs = recall_useful_envs(run.env_world, *facts)
    if num_envs is None:
        with meanwhile("measuring how many envs this GPU can use"):
            trials = measure_envs(lambda envs: _try(run, envs), most, _free_memory(run.config.device))
        num_envs = choose(trials)
        remember_useful_envs(run.env_world, num_envs, *facts)
        say(_text(trials, num_envs, most))
    return _with_envs(run, num_envs * size)


def _with_envs(run: ResolvedRun, num_envs: int) -> ResolvedRun:
    changed = run.with_config(num_envs=num_envs, **shorter_rollout(run.config, num_envs))
    return replace(changed, num_envs=num_envs)


def _is_open(run: ResolvedRun, asked: RunConfig) -> bool:
    config = run.config
    if config.backend != "cuda" or asked.num_envs != "auto" or not specs()[config.learner].on_policy:
        return False
    if "num_envs" in asked.model_fields_set:
        return True
    return "steps" in asked.model_fields_set and not has_own_gpu_recipe(run.world, config.learner)


def measure_envs(attempt: Callable[[int], EnvsTrial], most: int, free: int) -> list[EnvsTrial]:
    """Trials with more and more envs, up to `most`. One that fails for lack of memory ends them, and none is made that
    would take more than a share of the `free` bytes."""
    trials: list[EnvsTrial] = []
    envs, begun = min(FEWEST, most), time.monotonic()
    while True:
        trial = _unless_too_large(attempt, envs)
        release_memory()
        if trial is None or trial.memory > MEMORY_SHARE * free:
            if trials or envs == 1:
                return trials
            envs, most = max(1, envs // GROWTH), envs - 1  # even the first number was too large
            continue
        trials.append(trial)
        wanted = min(envs * GROWTH, most, _that_fit(trials, free))
        grows = len(trials) < 2 or trial.rate >= MIN_GAIN * trials[-2].rate
        if wanted <= envs or not grows or time.monotonic() - begun > BUDGET:
            return trials
        envs = wanted


def _unless_too_large(attempt: Callable[[int], EnvsTrial], envs: int) -> EnvsTrial | None:
    try:
        return attempt(envs)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return None


def choose(trials: list[EnvsTrial]) -> int:
    """The fewest envs with nearly the highest rate."""
    if not trials:
        return 1
    best = max(trial.rate for trial in trials)
    return min(trial.envs for trial in trials if trial.rate >= ENOUGH * best)


def _that_fit(trials: list[EnvsTrial], free: int) -> int:
    """How many envs fit, if memory grows in proportion: a power of two times those of the last trial."""
    last, fitting = trials[-1], GROWTH
    while fitting > 1 and fitting * last.memory > MEMORY_SHARE * free:
        fitting //= 2
    return last.envs * fitting


def _try(run: ResolvedRun, envs: int) -> EnvsTrial:
    """Rollouts and updates of a run with so many envs; nothing is kept of them."""
    trial = _with_envs(run.with_config(devices=1), envs)
    device = torch.device(run.config.device)
    before = _begin_memory(device)
    with open_engine(trial) as engine:
        state = TrainingState(trial.config, engine, make_learner(trial))
        collector = state.collector
        collector.begin(*state.reset_envs(run.config.seed))

        def iterate() -> None:
            collector.collect(state.learner.steps_until_update, lambda: False)
            collector.update()

        iterate()  # compiles, captures, and makes each buffer
        iterate()
        _wait(device)
        begun, first = time.perf_counter(), collector.steps
        while time.perf_counter() - begun < TIMED:
            iterate()
            _wait(device)
        rate = (collector.steps - first) / (time.perf_counter() - begun)
        memory = (torch.cuda.max_memory_reserved(device) if device.type == "cuda" else 0) - before
        collector.close()
    return EnvsTrial(envs, rate, memory)


def _facts(run: ResolvedRun, most: int) -> tuple[object, ...]:
    """What the best number depends on beside the world."""
    options = run.config.learner_options.model_dump(mode="json", exclude={"learning_rate"})
    device = torch.device(run.config.device)
    gpu = (torch.cuda.get_device_name(device), _free_memory(run.config.device) >> 32) if device.type == "cuda" else ()
    return run.config.learner, sorted(options.items()), gpu, most


def _text(trials: list[EnvsTrial], num_envs: int, most: int) -> str:
    tried = ", ".join(f"{trial.envs:,} make {trial.rate:,.0f} steps/s" for trial in trials)
    memory = max((trial.memory for trial in trials if trial.envs == num_envs), default=0)
    limit = "; more would leave this run too few updates" if num_envs == most else ""
    return f"num_envs={num_envs} on this GPU: {tried or 'no more fit'}; {size_text(memory)} of its memory{limit}"


# --- memory of the device ------------------------------------------------------------------------------------------


def _free_memory(device: str) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else 1 << 40


def _begin_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_reserved(device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


LEARNERS = ("ppo", "sac", "td3", "dqn", "xqc")  # that collectors can act for
CLUSTERS = {"ray": ("rookery.cluster.remote_envs", "open_ray_envs")}


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
    if getattr(config.learner_options, "epsilon_decay", None) is not None:
        raise ConfigError(f"{start} cannot be combined with `dqn.epsilon_decay`: use `dqn.epsilon_steps`")
    if config.cluster.asynchronous and getattr(config.learner_options, "recurrent", None):
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
