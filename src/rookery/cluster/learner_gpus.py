"""The GPU of each learner: NCCL, by which they sum gradients, refuses two of them on one."""

from __future__ import annotations

from collections.abc import Collection

import torch

from rookery.errors import RunError


def gpu_name(device: torch.device) -> str:
    """What no other GPU of any machine is called; "" for a CPU."""
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""


def free_gpu(taken: Collection[str]) -> torch.device:
    """The first GPU of this process that no other learner has; `taken` are the names of theirs. Ray lets a learner that
    it has started see only the one that it has given to it."""
    devices = [torch.device("cuda", k) for k in range(torch.cuda.device_count())]
    if not devices:
        raise RunError(
            '`cluster.learner_device` = "cuda", and torch finds no GPU here: start the run on a node with one, or use '
            '`cluster.learner_device` = "cpu"'
        )
    for device in devices:
        if gpu_name(device) not in taken:
            return device
    raise RunError(
        "every GPU of this node is another learner's, and NCCL refuses two learners on one GPU: use fewer "
        "`cluster.learners`, or add nodes with GPUs"
    )
