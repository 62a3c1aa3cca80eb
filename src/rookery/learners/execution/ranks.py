"""The processes that train one agent together, and what they exchange.

Every exchange is an all-gather: each process gets the parts of all, and joins or sums them in the order of the ranks.
So all of them compute the same bits, whatever way the parts travelled.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from rookery.errors import UsageError
from rookery.learners.normalize import Moments

WAIT = timedelta(days=7)  # the others wait while one process evaluates. The death of a process is noticed at once


class Ranks:
    """A process among `size` that train together, as torch.distributed numbers them: NCCL between GPUs, gloo between
    CPUs, and gloo for tensors of GPUs too if two processes share one."""

    def __init__(self, store: dist.Store, rank: int, size: int, device: torch.device, own_device: bool = True) -> None:
        """`own_device`: no other process of this run computes on the same GPU, which NCCL needs."""
        if dist.is_initialized():
            raise UsageError(
                "this program has called torch.distributed.init_process_group() itself: call "
                "destroy_process_group() first, or train with `devices` = 1"
            )
        self.rank, self.size, self.device = rank, size, device
        self.direct = device.type == "cuda" and own_device  # tensors of the GPU travel without the host
        if self.direct:
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if self.direct else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=WAIT)

    def close(self) -> None:
        """Leave the group; the others need not be there any more."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def abort(self) -> None:
        """End a wait for a process that is gone. Where gloo waits, it notices by itself."""
        if self.direct and dist.is_initialized():
            dist.distributed_c10d._abort_process_group()

    # --- tensors --------------------------------------------------------------------------------------------------

    def gather(self, own: Tensor) -> list[Tensor]:
        """The tensors of all processes by rank; they have one shape and type."""
        sent = own.detach().contiguous()
        travelling = sent if self.direct else sent.cpu()
        raw = travelling.reshape(-1).view(torch.uint8)  # not every backend knows every type
        parts = [torch.empty_like(raw) for _ in range(self.size)]
        self._all_gather(parts, raw)
        return [part.view(own.dtype).reshape(own.shape).to(own.device) for part in parts]

    def join(self, own: Tensor, axis: int) -> Tensor:
        """The parts of all processes as one tensor along `axis`."""
        return torch.cat(self.gather(own), axis)

    def sum_(self, own: Tensor) -> Tensor:
        """The sum over all processes, in place, added in the order of the ranks."""
        first, *others = self.gather(own)
        for other in others:
            first += other
        return own.copy_(first)

    # --- messages -------------------------------------------------------------------------------------------------

    def send(self, message: dict[str, Any]) -> None:
        """Send a message of plain values from rank 0 to all others."""
        self.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any]:
        """The next message of rank 0; waits for it."""
        message = json.loads(self.receive_bytes())
        assert isinstance(message, dict)
        return message

    def send_bytes(self, data: bytes) -> None:
        """As `send`."""
        dist.broadcast(torch.tensor([len(data)]), 0)
        dist.broadcast(torch.from_numpy(np.frombuffer(data, np.uint8).copy()), 0)

    def receive_bytes(self) -> bytes:
        """As `receive`."""
        length = torch.zeros(1, dtype=torch.int64)
        dist.broadcast(length, 0)
        data = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(data, 0)
        return data.numpy().tobytes()

    def exchange(self, own: bytes) -> list[bytes]:
        """The bytes of all processes by rank; they may differ in length."""
        lengths = [int(length) for length in self._gather_cpu(torch.tensor([len(own)]))]
        padded = torch.zeros(max(max(lengths), 1), dtype=torch.uint8)
        padded[: len(own)] = torch.from_numpy(np.frombuffer(own, np.uint8).copy())
        parts = self._gather_cpu(padded)
        return [part[:length].numpy().tobytes() for part, length in zip(parts, lengths, strict=True)]

    def _gather_cpu(self, own: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(own) for _ in range(self.size)]
        self._all_gather(parts, own)
        return parts

    def _all_gather(self, parts: list[Tensor], own: Tensor) -> None:
        dist.all_gather(parts, own)


def joined_moments(ranks: Ranks) -> Callable[[Moments], Moments]:
    """For `RunningNorm`: from the moments of this process's rows to those of the rows of all processes."""

    def join(own: Moments) -> Moments:
        parts = ranks.gather(torch.stack([torch.as_tensor(part).to(own[1]).expand_as(own[1]) for part in own]))
        count, mean, variance = parts[0]
        for more, other_mean, other_variance in parts[1:]:
            total, delta = count + more, other_mean - mean
            variance = (variance * count + other_variance * more + delta.square() * (count * more / total)) / total
            count, mean = total, mean + delta * (more / total)
        return count.flatten()[0], mean, variance

    return join


CONNECT_SECONDS = 60.0  # for ranks that are there to find one another


class RankLost(RuntimeError):
    """Another process of the group is gone, or has not answered in time."""


class LosableRanks(Ranks):
    """A process among several, in a group of its own: torch's default one is left to the user."""

    def _open(self, make_group: Callable[[], Any]) -> None:
        self._group: Any = None
        try:
            self._group = make_group()
        except RuntimeError as error:
            raise RankLost(_first_line(error)) from None

    def _all_gather(self, parts: list[Tensor], own: Tensor) -> None:
        if self._group is None:
            raise RankLost("the group was left")
        try:
            self._group.allgather([parts], [own]).wait()
        except RuntimeError as error:
            raise RankLost(_first_line(error)) from None

    def close(self) -> None:
        """Leave the group: a process that waits for this one notices at once."""
        group, self._group = self._group, None
        if group is not None:
            with suppress(RuntimeError):
                group.abort()  # for a thread that waits; connections are closed when nobody has the group any more


class GlooRanks(LosableRanks):
    """A process among `size` on CPUs."""

    def __init__(self, store: dist.Store, rank: int, size: int, address: str, seconds: float) -> None:
        """All ranks give an equal `store`. `address` is this process's own, at which it listens for the others;
        `seconds` is how long it waits for any of them."""
        self.rank, self.size, self.device, self.direct = rank, size, torch.device("cpu"), False
        gloo: Any = dist.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = timedelta(seconds=min(seconds, CONNECT_SECONDS))
        self._open(lambda: gloo(store, rank, size, options))
        self._group._set_default_timeout(timedelta(seconds=seconds))


def open_store(address: str) -> dist.TCPStore:
    """A new store for the ranks to find one another, which listens at this address of this machine only."""
    listening = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    listening.bind((address, 0))
    port = listening.getsockname()[1]
    return dist.TCPStore(
        address, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach(), use_libuv=True
    )


def own_address(towards: str, port: int) -> str:
    """The address of this machine that another one sees."""
    with socket.socket(socket.AF_INET6 if ":" in towards else socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        unsent.connect((towards, port))  # which sends nothing, and chooses a network
        return str(unsent.getsockname()[0])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


# An error of another rank is raised where this one waits for it, and can recover. By default torch ends the process.
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
