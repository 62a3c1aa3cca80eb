"""The learners that help the one of this process, as it sees them: see `Leading`."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from rookery.cluster.node_facts import NodeProcess
from rookery.cluster.remote_collectors import START_SECONDS, ProcessLosses, RemoteCollectors, lost_reason
from rookery.cluster.transport import CollectorLost, Transport
from rookery.config import RunConfig
from rookery.errors import RunError, WorkerDied
from rookery.gate import allow_given
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.execution.ranks import LosableRanks, RankLost, open_ranks, open_store, own_address
from rookery.learners.execution.shared import Columns, envs_of, help_update, helping_ppo
from rookery.learners.learner import Tree
from rookery.training.storage.trust import code_in

NOTICE_SECONDS = 20.0  # in which a learner that is alive says that it has lost another one
MOST_BROKEN = 3  # times in a row that connections may break though all learners are there


class HelperLearners:
    """Ranks 1 and up of a group in which this process is rank 0."""

    def __init__(self, transport: Transport, collectors: RemoteCollectors, config: RunConfig, learner: Any) -> None:
        self._transport, self._collectors, self._config, self._learner = transport, collectors, config, learner
        self._size, self._kind = config.cluster.learners, config.cluster.learner_device
        if self._kind == "cuda":
            free_gpu(())  # refuses a machine without one
        ranks = range(1, self._size)
        self._handles: dict[int, Any] = {rank: self._start() for rank in ranks}
        self._losses = {rank: ProcessLosses(config) for rank in ranks}
        self._unready = {rank: self._call(rank, "facts", *collectors.code) for rank in ranks}  # its first call
        self._calls: dict[int, Any] = {}  # of the present update
        self._store = open_store(transport.address())
        self._ranks: LosableRanks | None = None
        self._gpus: dict[int, str] = {}  # by rank, of those in other processes
        self._groups = self._broken = 0
        self.losses = 0  # since this process began

    def begin(self, common: Tree, columns: Columns) -> LosableRanks:
        """See `Helpers`."""
        self._make_ready()
        if self._ranks is None:
            self._join()
        assert self._ranks is not None
        shared = self._transport.share(common)
        self._calls = {rank: self._call(rank, "learn", shared, self._part(columns, rank)) for rank in self._handles}
        return self._ranks

    def _part(self, columns: Columns, rank: int) -> dict[str, np.ndarray]:
        envs = envs_of(rank, self._size, self._learner.num_envs)
        return {name: np.ascontiguousarray(value.numpy()[:, envs]) for name, value in columns.items()}

    def end(self) -> None:
        """See `Helpers`. One that was lost after it had sent its last gradient is replaced before the next update."""
        self._replace(self._outcomes(self._config.cluster.timeout))
        self._broken = 0

    def mend(self, error: RankLost) -> None:
        """See `Helpers`."""
        self._leave()  # those that are alive wait for this process, or for the one that is lost
        lost = self._outcomes(NOTICE_SECONDS)
        self._broken += not lost
        if self._broken == MOST_BROKEN:
            raise WorkerDied(
                f"the {self._size} learners cannot reach one another ({error}): see that all ports are open between "
                "the nodes, or train with `cluster.learners` = 1"
            )
        self._replace(lost)

    def figures(self) -> dict[str, float]:
        """For events."""
        return {"cluster/learners": self._size, "cluster/learners_lost": self.losses}

    # --- processes --------------------------------------------------------------------------------------------------

    def _make_ready(self) -> None:
        """Wait for learners that have just started, until all that are there can learn."""
        while self._unready:
            lost: dict[int, str] = {}
            for rank, call in self._unready.items():
                try:
                    self._prepare(rank, call)
                except (CollectorLost, TimeoutError) as error:
                    lost[rank] = lost_reason(error, START_SECONDS)
            self._unready = {}
            self._replace(lost)

    def _prepare(self, rank: int, facts: Any) -> None:
        learner, agent = self._learner, self._learner.agent
        self._collectors.check(self._transport.result(facts, START_SECONDS))
        spaces = agent.observation_space, agent.action_space
        call = self._call(rank, "use_learner", code_in(self._config), spaces, learner.options, self._kind)
        self._gpus[rank] = self._transport.result(call, START_SECONDS)

    def _join(self) -> None:
        """A new group of all."""
        self._groups += 1
        name, seconds = f"group{self._groups}", self._config.cluster.timeout
        address = self._transport.address()
        where = address, self._store.port, name
        self._calls = {rank: self._call(rank, "join", *where, rank, self._size, seconds) for rank in self._handles}
        store = dist.PrefixStore(name, self._store)
        self._ranks = open_ranks(store, 0, self._size, self._own_device(), address, seconds)

    def _own_device(self) -> torch.device:
        """Where this process computes its part of an update. Its GPU is one that Ray has given to none of the others:
        Ray does not know that this process uses one."""
        learner, taken = self._learner, self._gpus.values()
        if self._kind == "cpu":
            return learner.device
        leading = learner.execution
        if leading.twin is None or gpu_name(leading.twin.device) in taken:
            agent = learner.agent
            spaces = agent.observation_space, agent.action_space
            leading.twin = helping_ppo(spaces, learner.options, free_gpu(taken))
        return leading.twin.device

    def _start(self) -> Any:
        return self._transport.start_helper("learner", on_gpu=self._kind == "cuda")

    def _outcomes(self, seconds: float) -> dict[int, str]:
        """Wait for the present calls; returns which learners are lost, and why. Errors of their own end the run."""
        lost: dict[int, str] = {}
        calls, self._calls = self._calls, {}
        for rank, call in calls.items():
            try:
                self._transport.result(call, seconds)
            except RankLost:
                pass  # it has noticed that another one is gone
            except (CollectorLost, TimeoutError) as error:
                lost[rank] = lost_reason(error, seconds)
            except Exception as error:
                error.add_note(f"in {self._name(rank)}")
                raise
        return lost

    def _replace(self, lost: dict[int, str]) -> None:
        """Start another process for each of these, which is ready by the next `begin`."""
        for rank, reason in lost.items():
            name = self._name(rank)
            self._losses[rank].count(name, reason)
            self.losses += 1
            self._transport.kill(self._handles[rank])
            self._handles[rank] = self._start()
            self._unready[rank] = self._call(rank, "facts", *self._collectors.code)
            self._collectors.note(
                f"{name} {reason}: another one takes its place, with the weights of this process; no number of the run "
                "depends on it"
            )
        if lost:
            self._leave()

    def _call(self, rank: int, method: str, *args: Any) -> Any:
        return self._transport.call(self._handles[rank], method, *args)

    def _name(self, rank: int) -> str:
        return f"learner {rank} of {self._size} (on {self._transport.place(self._handles[rank])})"

    def _leave(self) -> None:
        if self._ranks is not None:
            self._ranks.close()
            self._ranks = None

    def close(self) -> None:
        """End all of them, those that do not answer too."""
        self._leave()
        for handle in self._handles.values():
            with suppress(Exception):
                self._transport.kill(handle)
        self._handles = {}


class LearnerActor(NodeProcess):
    """Learns what it is sent, with the others of its group."""

    learner: PPO

    def __init__(self) -> None:
        self._open = ExitStack()
        self._ranks: LosableRanks | None = None

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

    def close(self) -> None:
        """Leave the group."""
        self._leave()
        self._open.close()


def _writable(tree: Tree) -> Tree:
    """Arrays of the object store cannot be written to, which torch warns about."""
    if isinstance(tree, dict):
        return {name: _writable(value) for name, value in tree.items()}
    return np.array(tree) if isinstance(tree, np.ndarray) else tree


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
