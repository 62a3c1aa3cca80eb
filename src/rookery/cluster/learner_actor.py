"""The process that helps a run's learner on some node: it computes its share of every gradient of an update.

It is a plain class: an actor of Ray in a run, an object of this process in tests.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from rookery.cluster.learner_gpus import free_gpu, gpu_name
from rookery.cluster.node_facts import NodeFacts, facts_here
from rookery.cluster.shipped_files import Contents, use_files
from rookery.gate import allow_given
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.execution.gloo_ranks import LosableRanks, own_address
from rookery.learners.execution.leading_ppo import help_update, helping_ppo
from rookery.learners.execution.nccl_ranks import open_ranks
from rookery.learners.learner import Tree


class LearnerActor:
    """Learns what it is sent, with the others of its group."""

    learner: PPO

    def __init__(self) -> None:
        self._open = ExitStack()
        self._ranks: LosableRanks | None = None

    def facts(self, files: list[str], contents: Contents) -> NodeFacts:
        """See `CollectorActor.facts`."""
        use_files(files, contents)
        return facts_here(files)

    def use_learner(self, code: list[str], spaces: tuple[Any, Any], options: Any, kind: str) -> str:
        """Make nets like those of the run's learner, on a device of this kind; `code` is what they may import. Its own
        rollout stays empty. Returns the name of its GPU."""
        allow_given(code)
        keep_memory()
        device = torch.device("cpu") if kind == "cpu" else free_gpu(())
        self.learner = helping_ppo(spaces, options, device)
        self.learner.use_threads(options.threads or 1)
        self._open.enter_context(small_products(self.learner))
        return gpu_name(device)

    def join(self, address: str, port: int, name: str, rank: int, size: int, seconds: float) -> None:
        """Become a rank of the group with this name, whose store is at this address."""
        self._leave()
        store = dist.PrefixStore(name, dist.TCPStore(address, port, is_master=False))
        self._ranks = open_ranks(store, rank, size, self.learner.device, own_address(address, port), seconds)

    def learn(self, common: Tree, columns: dict[str, np.ndarray]) -> None:
        """An update; RankLost if another rank is gone."""
        assert self._ranks is not None
        try:
            help_update(self.learner, self._ranks, _writable(common), _writable(columns))
        except BaseException:
            self._leave()  # so that nobody waits for this one
            raise

    def _leave(self) -> None:
        if self._ranks is not None:
            self._ranks.close()
            self._ranks = None

    def pid(self) -> int:
        """Of this process."""
        return os.getpid()

    def close(self) -> None:
        """Leave the group."""
        self._leave()
        self._open.close()


def _writable(tree: Tree) -> Tree:
    """Arrays of the object store cannot be written to, which torch warns about."""
    if isinstance(tree, dict):
        return {name: _writable(value) for name, value in tree.items()}
    return np.array(tree) if isinstance(tree, np.ndarray) else tree
