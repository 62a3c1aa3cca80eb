"""The collectors of a run, as the learner's process sees them: who has which envs, and what happens when one is lost.

A rollout is collected by all at once and joined in the order of the envs. If a collector is lost in the meantime,
another process takes its envs: they begin new episodes with their next seeds, and collect the same rollout with the
same weights. The others are not disturbed, and no step of the lost part is counted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.cluster.env_shares import Share
from rookery.cluster.node_facts import NodeFacts, check_equal, facts_here, read_files
from rookery.cluster.transport import CollectorLost, Transport
from rookery.config import RunConfig
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import RestartLimit, RookeryError, WorkerDied
from rookery.learners.learner import Tree
from rookery.training.storage.trust import code_in

RESTART_WINDOW = 60.0  # seconds, in which `max_restarts` of a process are allowed
START_SECONDS = 300.0  # for importing torch and making envs, on a busy node
CLOSE_SECONDS = 5.0  # for closing envs
Learning = tuple[str, tuple[Any, Any], Any, int]  # arguments of `CollectorActor.use_learner`


class ProcessLosses:
    """Of one process and those that take its place."""

    def __init__(self, config: RunConfig) -> None:
        self._raises, self._most = config.on_failure == "raise", config.max_restarts
        self._lost_at: deque[float] = deque()

    def count(self, name: str, reason: str) -> None:
        """It was lost for this reason; WorkerDied or RestartLimit if the run is to end."""
        now = time.monotonic()
        if self._raises:
            raise WorkerDied(f"{name} {reason}")
        while self._lost_at and now - self._lost_at[0] > RESTART_WINDOW:
            self._lost_at.popleft()
        if len(self._lost_at) >= self._most:
            raise RestartLimit(
                f"{name} {reason}, after {len(self._lost_at)} restarts within {RESTART_WINDOW:g} s "
                f"(max_restarts={self._most})"
            )
        self._lost_at.append(now)


@dataclass(eq=False)
class _Held:
    """One collector."""

    share: Share
    handle: Any
    losses: ProcessLosses
    times_lost: int = 0


class RemoteCollectors:
    """Calls all collectors at once and returns their answers in the order of their envs."""

    def __init__(self, transport: Transport, shares: list[Share], config: RunConfig, own: bool = False) -> None:
        """With `own`, the first one may be in this process."""
        self._transport, self._config = transport, config
        self.on_note: Callable[[str], None] | None = None
        files = [name.rpartition(":")[0] for name in code_in(config)]
        # Of the user's own code, as of now: a file that changes during the run is another one to nodes that join.
        self.code, self._here = (files, read_files(files)), facts_here(files)
        self._learning: Learning | None = None
        self._root = config.seed
        self.env_restarts = 0  # of envs that failed, since this process began
        self.losses = 0  # of collectors, since this process began
        self.restarted: list[Share] = []  # their envs have begun new episodes since the last rollout
        here = transport.own() if own else transport.start(0)
        handles = [transport.start(share.index) if share.index else here for share in shares]
        self._held = [_Held(*each, ProcessLosses(config)) for each in zip(shares, handles, strict=True)]
        self.descriptions = [self._open(held) for held in self._held]

    def _open(self, held: _Held) -> EnvDescription:
        """Make its envs, on a node that is like this one."""
        self.check(self._answer(held, "facts", *self.code))
        return self._answer(held, "open", held.share)

    def check(self, facts: NodeFacts) -> None:
        """Refuse a node that differs from this one."""
        check_equal(facts, self._here)

    @property
    def shares(self) -> list[Share]:
        return [held.share for held in self._held]

    @property
    def handles(self) -> list[Any]:
        """Of all collectors, for the transport."""
        return [held.handle for held in self._held]

    # --- calls ------------------------------------------------------------------------------------------------------

    def use_learner(self, *learning: Any) -> None:
        """See `CollectorActor.use_learner`."""
        self._learning = learning
        self._all("use_learner", lambda held: learning)

    def reset(self, root: int) -> None:
        """New episodes in all envs, with children of this seed."""
        self._root = root
        self._all("reset", lambda held: (root, held.share.seeds(root)))

    def load(self, states: list[Tree], times_lost: list[int]) -> None:
        """Continue from `states()` of collectors with the same shares, and how often each was lost before."""
        self._all("load", lambda held: (states[held.share.index],))
        for held, times in zip(self._held, times_lost, strict=True):
            held.times_lost = times

    @property
    def times_lost(self) -> list[int]:
        """How often the envs of each collector were lost: each time they get further seeds."""
        return [held.times_lost for held in self._held]

    def states(self) -> list[Tree]:
        """The state of the envs of each collector; StateError if any cannot be saved. One that was lost is replaced,
        and its share is added to `restarted`."""
        calls = [self._transport.call(held.handle, "state") for held in self._held]
        found: list[Tree] = []
        for held, call in zip(self._held, calls, strict=True):
            while len(found) <= held.share.index:
                try:
                    found.append(self.answer(held.share.index, call, START_SECONDS))
                except (CollectorLost, TimeoutError) as error:
                    self._replace(held, lost_reason(error, START_SECONDS))
                    self.restarted.append(held.share)
                    call = self._transport.call(held.handle, "state")
        return found

    def _all(self, method: str, arguments: Callable[[_Held], tuple[Any, ...]]) -> list[Any]:
        calls = [self._transport.call(held.handle, method, *arguments(held)) for held in self._held]
        return [self._result(held, call, START_SECONDS) for held, call in zip(self._held, calls, strict=True)]

    def _answer(self, held: _Held, method: str, *args: Any) -> Any:
        return self._result(held, self._transport.call(held.handle, method, *args), START_SECONDS)

    def _result(self, held: _Held, call: Any, seconds: float) -> Any:
        """An answer whose loss ends the run."""
        try:
            with self._named(held):
                return self._transport.result(call, seconds)
        except (CollectorLost, TimeoutError) as error:
            raise WorkerDied(f"{self._name(held)} {lost_reason(error, seconds)}") from None

    @contextmanager
    def _named(self, held: _Held) -> Iterator[None]:
        """Errors of a collector's envs say which one it is."""
        try:
            yield
        except RookeryError as error:
            error.add_note(f"in {self._name(held)}; the numbers of envs above count from its first one")
            raise

    def _name(self, held: _Held) -> str:
        return f"collector {held.share.index} ({held.share.text}, on {self._transport.place(held.handle)})"

    # --- rollouts ---------------------------------------------------------------------------------------------------

    def collect(self, weights: Tree, noise: np.ndarray, memory: np.ndarray) -> list[dict[str, Any]]:
        """A rollout of every collector with these weights; noise is [steps, rows, ...], memory [rows, ...]."""
        shared, deadline = self._transport.share(weights), time.monotonic() + self._config.cluster.timeout
        calls = [self._collect(held, shared, noise, memory) for held in self._held]
        parts: list[dict[str, Any]] = []
        for held, call in zip(self._held, calls, strict=True):
            while True:
                try:
                    parts.append(self._part(held, call, max(0.0, deadline - time.monotonic())))
                    break
                except (CollectorLost, TimeoutError) as error:
                    self._replace(held, lost_reason(error, self._config.cluster.timeout))
                    memory[held.share.rows] = 0.0
                    deadline = time.monotonic() + self._config.cluster.timeout
                    call = self._collect(held, shared, noise, memory)
        return parts

    def own_part(self, collect: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A rollout that the only collector makes in this process."""
        (held,) = self._held
        with self._named(held):
            part = collect()
        self.tell_notes(held.share.index, part)
        return part

    def _collect(self, held: _Held, weights: Any, noise: np.ndarray, memory: np.ndarray) -> Any:
        rows = held.share.rows
        part = np.ascontiguousarray(noise[:, rows]), memory[rows]
        return self._transport.call(held.handle, "collect", weights, *part)

    # --- collectors that do not wait --------------------------------------------------------------------------------

    @property
    def timeout(self) -> float:
        """Seconds after which a collector that has not answered is replaced."""
        return self._config.cluster.timeout

    def call(self, index: int, method: str, *args: Any) -> Any:
        """Start a call of one collector."""
        return self._transport.call(self._held[index].handle, method, *args)

    def answer(self, index: int, call: Any, seconds: float = 0.0) -> dict[str, Any]:
        """What a call of it returned; CollectorLost, or TimeoutError if it is not there in so many seconds."""
        with self._named(self._held[index]):
            answer: dict[str, Any] = self._transport.result(call, seconds)
        return answer

    def replace(self, index: int, reason: str) -> None:
        """Let another process take the envs of a collector."""
        self._replace(self._held[index], reason)

    def _part(self, held: _Held, call: Any, seconds: float) -> dict[str, Any]:
        part = self.answer(held.share.index, call, seconds)
        self.tell_notes(held.share.index, part)
        return part

    def tell_notes(self, index: int, part: dict[str, Any]) -> None:
        """Tell what a collector had to say with a part, and count the restarts of its envs."""
        self.env_restarts += part["restarts"]
        for text in part["notes"]:
            self._note(f"collector {index}: {text}")

    # --- losses -----------------------------------------------------------------------------------------------------

    def _replace(self, held: _Held, reason: str) -> None:
        """Another process takes the envs of a collector that was lost. They begin new episodes."""
        while True:
            self._count_loss(held, reason)
            began = time.monotonic()
            self._transport.kill(held.handle)
            held.handle = self._transport.start(held.share.index)
            try:
                self._begin_again(held)
                break
            except (CollectorLost, TimeoutError) as error:
                reason = lost_reason(error, START_SECONDS)
        self._note(
            f"{self._name(held)} has taken over after {time.monotonic() - began:.1f} s: its envs begin new episodes, "
            "and from here on the run differs from one that lost nothing"
        )

    def _begin_again(self, held: _Held) -> None:
        def call(method: str, *args: Any) -> Any:
            return self._transport.result(self._transport.call(held.handle, method, *args), START_SECONDS)

        self.check(call("facts", *self.code))
        call("open", held.share)
        assert self._learning is not None
        call("use_learner", *self._learning)
        call("reset", self._root, held.share.seeds(self._root, held.times_lost))

    def _count_loss(self, held: _Held, reason: str) -> None:
        name = self._name(held)
        held.losses.count(name, reason)
        held.times_lost += 1
        self.losses += 1
        self._note(f"{name} {reason}: the steps that it made for this rollout are lost, and are not counted")

    # --- other nodes ------------------------------------------------------------------------------------------------

    def assign(self, handles: list[Any], shares: list[Share]) -> list[Share]:
        """Give these shares to the collectors with these handles; others end. Envs of a collector that keeps its share
        continue, all others begin new episodes with further seeds: returns their shares."""
        before, generation = self._held, 1 + max(self.times_lost)
        same = {(each.share.first, each.share.num_envs): each for each in before}
        held: list[_Held] = []
        for handle, share in zip(handles, shares, strict=True):
            old = same.get((share.first, share.num_envs))
            kept = old is not None and old.handle is handle
            held.append(
                old if kept and old is not None else _Held(share, handle, ProcessLosses(self._config), generation)
            )
        for each in before:
            if all(each.handle is not handle for handle in handles):
                self._transport.kill(each.handle)
        self._held = held
        changed = [each for each in held if each not in before]
        for each in changed:
            try:
                self._begin_again(each)
            except (CollectorLost, TimeoutError) as error:
                self._replace(each, lost_reason(error, START_SECONDS))
        return [each.share for each in changed]

    def note(self, text: str) -> None:
        """Say something about the collectors in the run's events."""
        self._note(text)

    def _note(self, text: str) -> None:
        if self.on_note is not None:
            self.on_note(text)

    def close(self) -> None:
        """End all collectors, those that do not answer too."""
        calls = [(held, self._transport.call(held.handle, "close")) for held in self._held]
        self._held, deadline = [], time.monotonic() + CLOSE_SECONDS
        for held, call in calls:
            with suppress(Exception):
                self._transport.result(call, max(0.0, deadline - time.monotonic()))
            self._transport.kill(held.handle)


def lost_reason(error: Exception, seconds: float) -> str:
    """For messages."""
    return f"has not answered for {seconds:g} s" if isinstance(error, TimeoutError) else f"was lost ({error})"
