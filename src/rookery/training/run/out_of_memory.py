"""When memory runs out: which two settings to lower, to what, and how a run continues with less.

What a PPO learner needs grows with its rollout (`num_envs` x `rollout_length`) and with the rows of a minibatch; what
the others need with the replay buffer and the batch. Nets are small beside both.
"""

from __future__ import annotations

import gc
import math
import re
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces.utils import flatdim

from rookery.config import RunConfig
from rookery.config.layers import LARGEST_AGENT
from rookery.config.run_size import COPIES, StepSize, check_run_size
from rookery.console import say, size_text
from rookery.engine.batch import leaves
from rookery.engine.wrapping import USUAL_SIZE, largest_image
from rookery.errors import MemoryShortage, RookeryError, RunError
from rookery.learners.learner_spec import ReplayOptions
from rookery.learners.observations import leaves_of
from rookery.learners.registry import make_policy, specs
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.shared_run import device_names
from rookery.training.storage.checkpoint_files import short_text

# As libraries say it: torch of a GPU and of a CPU, CUDA itself, numba-cuda.
OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE)
ASKED_FOR = re.compile(r"[Tt]ried to allocate ([\d.]+) ([KMGT]?i?B)")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
UPDATING = {"update", "learn", "train_step", "gradient_step"}  # functions in which gradients are computed
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
        if shortage is None or shortage is error:
            raise
        raise shortage from error


def shortage_of(error: BaseException, run: ResolvedRun) -> MemoryShortage | None:
    """The error to raise instead, with what the run lowers if its configuration says so; None for any other error."""
    if not is_out_of_memory(error) or getattr(error, "lower", None):
        return None
    is_updating = any(frame.name in UPDATING for frame in traceback.extract_tb(error.__traceback__))
    settings = settings_to_lower(run, is_updating, fraction_that_fits(error, run.config.device))
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
    cannot be lowered are omitted."""
    config, name = run.config, run.config.learner
    options = config.learner_options
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
    """A checkpoint's tree for a run with lower values: the learner continues, the rollout starts over, and so do the
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


def _asked_for(error: BaseException) -> int | None:
    found = ASKED_FOR.search(str(error))
    return int(float(found[1]) * UNITS.get(found[2], 1)) if found else None


def _figures(error: BaseException, device: str) -> str:
    asked = _asked_for(error)
    if asked is None or not device.startswith("cuda") or not torch.cuda.is_available():
        return ""
    free, total = torch.cuda.mem_get_info(device)
    return f" ({size_text(asked)} more were needed, and {size_text(free)} of {size_text(total)} are free)"


# As torch, NumPy and Python say it.
TOO_LARGE = re.compile("overflow|allocate|array is too big|int too large|maximum allowed (dim|size)", re.IGNORECASE)
SAVED_COPIES = 3  # all but the gradient
LARGE_CHECKPOINT = 256 << 20  # bytes from which on the user gets a notice


@dataclass(frozen=True)
class LearnerSize:
    """The bytes of a learner, before it is made."""

    nets: int
    rollout: int = 0  # observations that are kept until the next update

    @property
    def memory(self) -> int:
        """For training."""
        return COPIES * self.nets + self.rollout

    @property
    def checkpoint(self) -> int:
        """Of the nets and their optimizer; a replay buffer is not counted."""
        return SAVED_COPIES * self.nets

    def __str__(self) -> str:
        count = self.nets / 4e6
        return (
            f"{count:,.1f} million weights, {size_text(self.memory)} of memory for training, "
            f"{size_text(self.checkpoint)} per checkpoint"
        )


@contextmanager
def enough_memory(learner: str) -> Iterator[None]:
    """One error for all the ways in which libraries say that something is too large. Of a GPU, `explained_shortage`
    tells more."""
    try:
        yield
    except (RookeryError, torch.OutOfMemoryError):
        raise
    except (MemoryError, OverflowError, RuntimeError, ValueError) as error:
        if not isinstance(error, MemoryError) and not TOO_LARGE.search(str(error)):
            raise
        raise MemoryShortage(f"{learner} needs more memory than there is: {short_text(error)}") from error


def learner_size(learner: str, observation_space: Any, action_space: Any, options: Any, num_envs: int) -> LearnerSize:
    """The size of a learner; its nets are made on torch's meta device, without memory."""
    try:
        with torch.device("meta"):
            nets = make_policy(learner, observation_space, action_space, options)
    except RuntimeError as error:
        if isinstance(error, RookeryError):
            raise
        if not TOO_LARGE.search(str(error)):
            if options.network is None:
                raise
            return LearnerSize(0)  # it may read its weights, which have no values here; other errors are raised again
        raise MemoryShortage(
            f"`{learner}.hidden` = {options.hidden!r:.60}: nets of that size are not possible"
        ) from error
    size = sum(part.numel() * part.element_size() for part in nets.parameters())
    steps = num_envs * getattr(options, "rollout_length", 0)
    return LearnerSize(size, steps * _row_bytes(observation_space))


def check_memory(config: RunConfig, observation_space: Any, action_space: Any, num_rows: int) -> None:
    """Refuse a run that does not fit into the free memory, now that its spaces are known."""
    size = learner_size(config.learner, observation_space, action_space, config.learner_options, num_rows)
    actions = leaves(action_space)
    action = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in actions if leaf.dtype is not None)
    outputs = 2 * torch.float32.itemsize * flatdim(action_space)  # and as much noise
    replayed = _replayed_bytes(observation_space, config.learner_options)
    sizes = StepSize(_row_bytes(observation_space), action, outputs, size.nets, replayed)
    try:
        check_run_size(config, sizes, num_rows, _free_on_gpu(config.device))
    except MemoryShortage as error:
        if largest_image(observation_space) <= math.prod(USUAL_SIZE):
            raise
        shortage = MemoryShortage(f"{error}; {_remedy(config.learner, observation_space)}")
        shortage.lower = error.lower
        raise shortage from None


def _free_on_gpu(device: str) -> int | None:
    if not device.startswith("cuda") or not torch.cuda.is_available():  # where it is missing, an error says so later
        return None
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch keeps it for itself
    return torch.cuda.mem_get_info(device)[0] + unused


def _row_bytes(observation_space: Any) -> int:
    """Of one observation, as it is stored."""
    return sum(torch.Size(leaf.shape).numel() * leaf.dtype.itemsize for leaf in leaves_of(observation_space))


def _replayed_bytes(observation_space: Any, options: Any) -> int:
    """Of a transition's two observations in a replay buffer, where frames of stacks are stored once."""
    by_frame = getattr(options, "steps_in_order", True)
    return sum(leaf.bytes_in_transition(by_frame and leaf.stored_by_frame) for leaf in leaves_of(observation_space))


def announce_size(learner: str, spaces: tuple[Any, Any], options: Any, num_envs: int, folder: Path, keep: int) -> None:
    """Before nets are made: a line about the size of large ones and of a replay buffer of frames, and an error if
    checkpoints cannot be kept in `folder`, of which the run keeps the last `keep` and the best."""
    size = learner_size(learner, *spaces, options, num_envs)
    kept, plain = _replayed_bytes(spaces[0], options), 2 * _row_bytes(spaces[0])
    if isinstance(options, ReplayOptions) and kept < plain:
        say(
            f"{learner} stores each frame of the stacked observations once: {options.buffer_size:,} transitions take "
            f"{size_text(options.buffer_size * kept)} instead of {size_text(options.buffer_size * plain)}"
        )
    if size.checkpoint < LARGE_CHECKPOINT:
        return
    remedy = _remedy(learner, spaces[0])
    say(f"{learner} is large: {size}; {remedy}")
    if size.nets > LARGEST_AGENT:
        raise RunError(
            f"an agent of {size_text(size.nets)} cannot be saved: at most {size_text(LARGEST_AGENT)} are; {remedy}"
        )
    free = _free_disk(folder)
    if free is None:
        return
    if size.checkpoint > free:
        raise RunError(f"no checkpoint fits into {folder}, where {size_text(free)} are free; {remedy}")
    if (kept := (keep + 1) * size.checkpoint) > free:
        say(
            f"{folder} has {size_text(free)} free, less than the {size_text(kept)} of all checkpoints that the run "
            f"keeps: --set checkpoints.keep=1 keeps fewer"
        )


def has_images(observation_space: Any) -> bool:
    """Whether a net reads images."""
    return any(leaf.kind == "image" for leaf in leaves_of(observation_space))


def _remedy(learner: str, observation_space: Any) -> str:
    if largest_image(observation_space) > math.prod(USUAL_SIZE):
        return "--set image_size=84 shrinks the images first"
    return f"smaller observations, or a smaller `{learner}.hidden`, would help"


def _free_disk(folder: Path) -> int | None:
    """The free bytes where a folder is or will be."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return None
