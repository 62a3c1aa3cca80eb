"""Ranks that may be lost, on CPUs: their group is left when one is gone, and made anew with whoever takes its place."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rookery.learners.execution.ranks import Ranks

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
        """Leave the group: whoever waits for this process notices at once."""
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
