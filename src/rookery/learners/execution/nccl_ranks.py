"""Ranks on GPUs that may be lost. NCCL wants a GPU for each of them."""

from __future__ import annotations

import os
from datetime import timedelta

import torch
import torch.distributed as dist

from rookery.learners.execution.gloo_ranks import GlooRanks, LosableRanks

# An error of another rank is raised where this one waits for it, and can be mended. By default torch ends the process.
RAISED_ERRORS = {"TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"}


class NcclRanks(LosableRanks):
    """A process among `size` with a GPU of its own, in a group of its own. What is gathered stays on the GPUs."""

    def __init__(self, store: dist.Store, rank: int, size: int, device: torch.device, seconds: float) -> None:
        """As of `GlooRanks`. NCCL finds addresses by itself; `NCCL_SOCKET_IFNAME` chooses a network."""
        self.rank, self.size, self.device, self.direct = rank, size, device, True
        os.environ.update(RAISED_ERRORS)
        torch.cuda.set_device(device)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=seconds)
        self._open(lambda: dist.ProcessGroupNCCL(store, rank, size, options))


def open_ranks(
    store: dist.Store, rank: int, size: int, device: torch.device, address: str, seconds: float
) -> LosableRanks:
    """A rank of the group of this store: by NCCL for learners on GPUs, by gloo for those on CPUs."""
    if device.type == "cuda":
        return NcclRanks(store, rank, size, device, seconds)
    return GlooRanks(store, rank, size, address, seconds)
