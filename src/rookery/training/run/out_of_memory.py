"""When memory runs out: which two settings to lower, to what, and how a run continues with less.

What a PPO learner needs grows with its rollout (`num_envs` x `rollout_length`) and with the rows of a minibatch; what
the others need with the replay buffer and the batch. Nets are small beside both.
"""

from __future__ import annotations

import gc
import math
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rookery.config import RunConfig
from rookery.console import size_text
from rookery.errors import MemoryShortage
from rookery.learners.registry import specs
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.shared_run import device_names
from rookery.training.storage.checkpoint_files import short_text

# As libraries say it: torch of a GPU and of a CPU, CUDA itself, numba-cuda.
OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)
ASKED_FOR = re.compile(r"[Tt]ried to allocate ([\d.]+) ([KMGT]?i?B)")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
UPDATING = {"update", "learn", "train_step", "update_tensors"}  # functions in which gradients are computed
SAFE_SHARE = 0.75  # of a GPU's memory: its allocator cannot fill every gap, and further allocations would have followed
Setting = tuple[str, int, int]  # a key, its present value, and one that fits
Lower = dict[str, tuple[int, int]]  # by key, the present value and the one to take
FEWEST_ROWS = 32  # of a minibatch: with less, a run would learn something else


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory, of a GPU or of this machine, was too small for an allocation."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, Exception) and OUT_OF_MEMORY.search(f"{type(error).__name__}: {error}") is not None


@contextmanager
def explained_shortage(run: ResolvedRun) -> Iterator[None]:
    """Raise a MemoryShortage that says what to lower, instead of any error that says that memory ran out."""
    try:
        yield
    except Exception as error:
        shortage = shortage_of(error, run)
        if shortage is None:
            raise
        if shortage is error:
            raise
        raise shortage from error


def shortage_of(error: BaseException, run: ResolvedRun) -> MemoryShortage | None:
    """The error to raise instead, with what the run lowers if its configuration says so; None for any other error."""
    if not is_out_of_memory(error) or getattr(error, "lower", None):
        return None
    settings = settings_to_lower(run, _is_updating(error), fraction_that_fits(error, run.config.device))
    shortage = error
    if not isinstance(error, MemoryShortage):
        shortage = MemoryShortage(f"{_sentence(error, run, settings)} ({short_text(error)})")
    elif "buffer_size" not in str(error):  # it is about something else that cannot be lowered
        return None
    assert isinstance(shortage, MemoryShortage)
    if settings and run.config.on_out_of_memory == "lower":
        key, now, less = settings[0]
        shortage.lower = {key: (now, less)}
    return shortage


def _sentence(error: BaseException, run: ResolvedRun, settings: list[Setting]) -> str:
    device, fits = run.config.device, "should fit" if run.config.device.startswith("cuda") else "may fit"
    where = "the GPU" if device.startswith("cuda") else "this machine"
    beginning = f"{where} has too little memory for this run{_figures(error, device)}: "
    if not settings:
        return f"{beginning}even the smallest batch does not fit"
    said = " or ".join(f"`{key}` ({now} now, {less} {fits})" for key, now, less in settings)
    itself = '; with `on_out_of_memory` = "lower" the run does it and continues'
    return f"{beginning}lower {said}{itself if run.config.on_out_of_memory == 'raise' else ''}"


def settings_to_lower(run: ResolvedRun, updating: bool, fraction: float) -> list[Setting]:
    """Two keys with their present values and values that would fit; the first is what a run lowers itself. Those that
    cannot be lowered are left out."""
    config, name = run.config, run.config.learner
    options = getattr(config, name)
    if specs()[name].on_policy:
        envs = ("num_envs", run.num_envs, max(config.groups or 1, len(device_names(config))))
        length = getattr(options, "rollout_length", 0)
        rows = -(-run.num_rows * length // options.minibatches) if hasattr(options, "minibatches") else 0
        rows = min(getattr(options, "batch_size", None) or rows, rows)
        batch, rollout = (f"{name}.batch_size", rows, FEWEST_ROWS), (f"{name}.rollout_length", length, 1)
        # Envs of a curriculum are in the middle of planned episodes, and stay.
        fewer = [rollout] if config.has_curriculum else [envs, rollout]
        found = [batch, *fewer] if updating and rows > FEWEST_ROWS else fewer
    else:
        batch = (f"{name}.batch_size", options.batch_size, FEWEST_ROWS)
        replay = (f"{name}.buffer_size", options.buffer_size, run.num_rows * options.n_step)
        found = [batch, replay] if updating else [replay, batch]
    lowered = ((key, now, _lower_value(key, now, least, fraction)) for key, now, least in found)
    return [setting for setting in lowered if setting[2] < setting[1]][:2]


def _lower_value(key: str, now: int, least: int, fraction: float) -> int:
    """At least `least`; envs in a multiple of it, as groups and processes have equal shares."""
    if key.endswith("batch_size"):
        fraction /= 2  # only a part of the memory follows the rows of a batch
    less = int(now * fraction)
    return max(less - less % least if key == "num_envs" else less, least)


def fraction_that_fits(error: BaseException, device: str) -> float:
    """A half, a quarter and so on of what was wanted: as much as the device's memory can hold."""
    asked = _asked_for(error)
    if asked is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return 0.5
    free, _ = torch.cuda.mem_get_info(device)
    limit = SAFE_SHARE * min(free + torch.cuda.memory_reserved(device), _own_limit(device))
    needed = torch.cuda.memory_allocated(device) + asked
    return 0.5 ** max(1, math.ceil(math.log2(max(needed / max(limit, 1), 1))))


def _own_limit(device: str) -> float:
    """The bytes that this process has allowed itself, by torch.cuda.set_per_process_memory_fraction."""
    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)(device)
    return fraction * torch.cuda.mem_get_info(device)[1]


def with_less(config: RunConfig, lower: Lower) -> RunConfig:
    """A configuration with the lower values."""
    changes: dict[str, Any] = {}
    for key, (_, value) in lower.items():
        section, _, name = key.rpartition(".")
        changes[section or name] = getattr(config, section).model_copy(update={name: value}) if section else value
    if "num_envs" in changes and config.workers is not None:
        changes["workers"] = min(config.workers, changes["num_envs"])
    return config.model_copy(update=changes)


def fit_saved(saved: Any, lower: Lower, num_rows: int) -> Any:
    """A checkpoint's tree for a run with lower values: the learner continues, the rollout begins anew, and so do the
    episodes if there are fewer envs."""
    learner, envs = {**saved["learner"]}, saved["envs"]
    if learner.get("rollout"):
        learner["rollout"] = {}
    if "num_envs" in lower:
        envs = {}
        if "memory" in learner:
            learner["memory"] = learner["memory"][:num_rows]
        if "running" in learner.get("scale", {}):
            learner["scale"] = {**learner["scale"], "running": learner["scale"]["running"][:num_rows]}
    return {**saved, "learner": learner, "envs": envs}


def less_text(lower: Lower) -> str:
    """A note about what was lowered."""
    parts = [f"{key} = {less} instead of {now}" for key, (now, less) in lower.items()]
    return f"memory ran out, so the run continues with {' and '.join(parts)}"


def release_memory() -> None:
    """Give back what a run that failed has held. Its frames must be gone: call it outside of `except`."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _is_updating(error: BaseException) -> bool:
    """Whether gradients were being computed when it was raised."""
    return any(frame.name in UPDATING for frame in traceback.extract_tb(error.__traceback__))


def _asked_for(error: BaseException) -> int | None:
    found = ASKED_FOR.search(str(error))
    return int(float(found[1]) * UNITS.get(found[2], 1)) if found else None


def _figures(error: BaseException, device: str) -> str:
    asked = _asked_for(error)
    if asked is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return ""
    free, total = torch.cuda.mem_get_info(device)
    return f" ({size_text(asked)} more were needed, and {size_text(free)} of {size_text(total)} are free)"
