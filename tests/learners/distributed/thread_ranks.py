"""Ranks that are threads of one process, for tests: what they exchange is what processes do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rookery.learners.execution.ranks import Ranks


class Board:
    """Where threads leave their tensors for one another."""

    def __init__(self, size: int) -> None:
        self.places: list[Tensor] = [torch.empty(0)] * size
        self.barrier = threading.Barrier(size, timeout=60)


class ThreadRanks(Ranks):
    def __init__(self, board: Board, rank: int) -> None:
        self.board, self.rank, self.size = board, rank, len(board.places)
        self.device, self.direct = torch.device("cpu"), False

    def gather(self, own: Tensor) -> list[Tensor]:
        self.board.places[self.rank] = own.detach().clone()
        self.board.barrier.wait()
        parts = [part.clone() for part in self.board.places]
        self.board.barrier.wait()
        return parts


def thread_ranks(size: int) -> list[Ranks]:
    """For each of so many threads its rank."""
    board = Board(size)
    return [ThreadRanks(board, rank) for rank in range(size)]


def in_threads(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """What `work` returns for each item, each in its own thread; an error of one is raised here."""
    results, errors = [None] * len(items), []

    def run(place: int) -> None:
        torch.set_num_threads(1)
        try:
            results[place] = work(items[place])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(items))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return results
