"""From what a user gives to what a study varies, and from there to the configuration of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.config import RunConfig
from rookery.engine.machine import available_memory, usable_cores
from rookery.errors import OptionError
from rookery.gate import demand, reaches
from rookery.studies import gpu_share
from rookery.studies.space.space import with_settings
from rookery.studies.trials.plans import trial_name
from rookery.studies.worker_count import known_count
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.run.initial_weights import with_initial_nets
from rookery.training.seeds.processes import MEMORY_OF_A_RUN, Shares, divide
from rookery.training.storage.load_agent import check_device

OPEN = (None, "auto")  # values that a run fills in
# What is chosen on one machine today, and would be otherwise on another tomorrow.
MEASURED = ("num_envs", "backend", "groups", "learner", "workers", "device")
# Output that nobody looks at in hundreds of runs, and that would take a good part of their time.
QUIET = {
    "plot": False, "report": False, "tensorboard": False, "video": False, "episodes": False, "system": False,
}  # fmt: skip
CHECKPOINTS, FEW_STEPS = 10, 10_000  # per run; a compiled world makes so many steps in a second or two
PRUNERS_OF_ONE_VALUE = '`search.pruner` = {pruner!r} compares one value: use it with `search.objectives` = "value"'


def study_config(config: RunConfig, recorded: Mapping[str, Any] | None = None) -> RunConfig:
    """The configuration that all trials of a study share, with every open choice made, so that trials compare.

    Args:
        recorded: That of the study that is continued: what was measured then counts, and is not measured again.
    """
    search = config.search
    if search.pruner != "none" and search.objectives != "value":
        raise OptionError(PRUNERS_OF_ONE_VALUE.format(pruner=search.pruner))
    if config.num_envs == "adaptive":
        raise OptionError('`num_envs` = "adaptive" changes by speed, so that trials do not compare: give a number')
    check_device(config.device)
    known = {key: recorded[key] for key in MEASURED if recorded is not None and _left_open(config, key, recorded)}
    config = with_initial_nets(config.model_copy(update=known))
    base = resolve_run(config).config
    if recorded is None and gpu_share.pays(base):
        base = resolve_run(config.model_copy(update={"device": "cuda"})).config
    options = base.learner_options
    if options.threads is None:  # sums differ with the number of threads, and workers share the cores
        base = base.model_copy(update={base.learner: options.model_copy(update={"threads": 1})})
    return base


def divided(base: RunConfig) -> Shares:
    """How many workers train at a time, and the cores of each."""
    cores, memory, jobs = usable_cores(), available_memory(), base.search.jobs
    if jobs is None and base.device.startswith("cuda"):
        jobs = gpu_share.gpu_jobs(base, cores, memory)
    elif jobs is None and (known := known_count(base)) is not None:
        jobs = max(1, min(known, memory // MEMORY_OF_A_RUN))
    return divide(base, base.search.n_trials, cores, memory, jobs)


def with_share(base: RunConfig, shares: Shares) -> RunConfig:
    """With the cores of one worker for the envs of a run. No number depends on it."""
    return base if base.workers is None else base.model_copy(update={"workers": min(base.workers, shares.cores)})


def trial_config(base: RunConfig, settings: Mapping[str, Any], number: int, runs: Path) -> RunConfig:
    """The configuration of a trial: with its settings, its name and little output."""
    config = with_settings(base, settings)
    for reach in reaches(config):  # a database may hold settings that no search has proposed
        demand(reach.kind, reach.value, reach.key)
    quiet = {key: value for key, value in QUIET.items() if key not in base.monitor.model_fields_set}
    changes = {
        "name": trial_name(number),
        "runs_dir": str(runs),
        "monitor": config.monitor.model_copy(update={**quiet, "verbose": False, "panel": False}),
        "checkpoints": config.checkpoints.model_copy(update=_checkpoints(config)),
    }
    return config.model_copy(update=changes)


def _checkpoints(config: RunConfig) -> dict[str, Any]:
    """One to continue from, and none that costs more than what it could save."""
    wanted: dict[str, Any] = {"keep": 1, "budget": 0.0}
    if config.backend == "kernel" and config.checkpoints.every_episodes is None and config.steps < NO_STEP_LIMIT:
        wanted["every"] = max(config.steps // CHECKPOINTS, FEW_STEPS)
    given = config.checkpoints.model_fields_set
    return {key: value for key, value in wanted.items() if key not in given}


def _left_open(config: RunConfig, key: str, recorded: Mapping[str, Any]) -> bool:
    return getattr(config, key) in OPEN and recorded.get(key) not in OPEN
