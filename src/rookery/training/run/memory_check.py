"""Refuses learners that are too large before memory is allocated: the system might kill the process for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch

from rookery.console import size_text
from rookery.errors import MemoryShortage, RookeryError
from rookery.learners.registry import make_policy
from rookery.training.storage.checkpoint_files import short_text

TOO_LARGE = re.compile("overflow|allocate|too (big|large)|maximum allowed", re.IGNORECASE)  # as libraries say it
COPIES = 4  # of each weight: itself, its gradient, and two averages of the optimizer


@contextmanager
def enough_memory(learner: str) -> Iterator[None]:
    """One error for all the ways in which libraries say that something is too large."""
    try:
        yield
    except RookeryError:
        raise
    except (MemoryError, OverflowError, RuntimeError, ValueError) as error:
        if not isinstance(error, MemoryError) and not TOO_LARGE.search(str(error)):
            raise
        raise MemoryShortage(f"{learner} needs more memory than there is: {short_text(error)}") from error


def _size(learner: str, observation_space: Any, action_space: Any, options: Any) -> int:
    """How many bytes the nets have; they are made on torch's meta device, without memory."""
    try:
        with torch.device("meta"):
            nets = make_policy(learner, observation_space, action_space, options)
    except RuntimeError as error:  # too many to count
        raise MemoryShortage(
            f"`{learner}.hidden` = {options.hidden!r:.60}: nets of that size are not possible"
        ) from error
    return sum(part.numel() * part.element_size() for part in nets.parameters())


def check_memory(learner: str, observation_space: Any, action_space: Any, options: Any) -> None:
    """Refuse nets that do not fit into the free memory."""
    needed = COPIES * _size(learner, observation_space, action_space, options)
    free = psutil.virtual_memory().available
    if needed > free:
        raise MemoryShortage(
            f"nets with `{learner}.hidden` = {options.hidden!r:.60} need about {size_text(needed)} for training, and "
            f"{size_text(free)} are free"
        )
