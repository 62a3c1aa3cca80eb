"""Says how large a learner will be, and refuses it if it is too large, before memory is allocated: the system might
kill the process for it, and its checkpoints might fill the disk."""

from __future__ import annotations

import math
import re
import shutil
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
from rookery.engine.image_size import USUAL_SIZE, largest_image
from rookery.engine.layout import leaves
from rookery.errors import MemoryShortage, RookeryError, RunError
from rookery.learners.observations import leaves_of
from rookery.learners.registry import make_policy
from rookery.training.storage.checkpoint_files import short_text

# As torch, NumPy and Python say it.
TOO_LARGE = re.compile("overflow|allocate|array is too big|int too large|maximum allowed (dim|size)", re.IGNORECASE)
SAVED_COPIES = 3  # all but the gradient
LARGE_CHECKPOINT = 256 << 20  # bytes from which on the user is told


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
    size = learner_size(config.learner, observation_space, action_space, getattr(config, config.learner), num_rows)
    actions = leaves(action_space)
    action = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in actions if leaf.dtype is not None)
    outputs = 2 * torch.float32.itemsize * flatdim(action_space)  # and as much noise
    sizes = StepSize(_row_bytes(observation_space), action, outputs, size.nets)
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


def announce_size(learner: str, spaces: tuple[Any, Any], options: Any, num_envs: int, folder: Path, keep: int) -> None:
    """Before nets are made: a line about the size of large ones, and an error if their checkpoints cannot be kept in
    `folder`, of which the run keeps the last `keep` and the best."""
    size = learner_size(learner, *spaces, options, num_envs)
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
