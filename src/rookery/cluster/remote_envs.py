"""The envs of a run that step on the nodes of a cluster, in the place of the run's engine.

The loop steps no env here: it asks for whole rollouts, by `RemoteRolloutCollector`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rookery.cluster.async_collectors import AsyncRolloutCollector, RemoteStepCollector
from rookery.cluster.collector_actor import OwnCollector
from rookery.cluster.env_shares import Share, divide_envs
from rookery.cluster.node_facts import NodeProcess
from rookery.cluster.ray_start import open_ray
from rookery.cluster.remote_collectors import CLOSE_SECONDS, ProcessLosses, RemoteCollectors, lost_reason
from rookery.cluster.rollout_collector import RemoteRolloutCollector
from rookery.cluster.transport import CollectorLost, Transport
from rookery.config.sections import leads
from rookery.engine import seeding
from rookery.errors import RookeryError, RunError, StateError
from rookery.gate import allow
from rookery.learners.cpu_threads import keep_memory
from rookery.learners.learner import Learner, Tree
from rookery.training.evaluation.evaluator import Evaluation, Evaluator
from rookery.training.resolve.resolved_run import ResolvedRun, evaluation_seed
from rookery.training.run.collector import Collector
from rookery.training.run.components import make_evaluator
from rookery.training.run.timing import Stopwatch
from rookery.training.storage.load_agent import agent_from
from rookery.training.storage.trust import reached_by

# The evaluator of a run that is a process of its own on the cluster: the run continues in the meantime.

POLL_SECONDS = 0.2


class RemoteEvaluator:
    """Stands for the run's `Evaluator`. One evaluation at a time: `begin` it, and ask for its `result`."""

    shared, apart = False, True  # see `Evaluator`

    def __init__(self, run: ResolvedRun, transport: Transport, collectors: RemoteCollectors) -> None:
        self.seed = evaluation_seed(run.config)
        self._transport, self._collectors = transport, collectors
        (share,) = divide_envs(run, [transport.slots(None)[0]])
        self._run, self._losses = share.run, ProcessLosses(run.config)
        self._order: tuple[Tree, float] | None = None  # the present evaluation
        self._start()

    def _start(self) -> None:
        """A process, and what it does before its first evaluation; calls are made in turn."""
        self._handle = self._transport.start_helper("evaluator")
        self._calls = [self._call("facts", *self._collectors.code), self._call("open", self._run)]

    def _call(self, method: str, *args: Any) -> Any:
        return self._transport.call(self._handle, method, *args)

    def begin(self, agent: Tree, most_steps: float) -> None:
        """Evaluate an agent, by the part "agent" of a checkpoint."""
        self._order = agent, most_steps
        self._calls.append(self._call("evaluate", agent, most_steps))

    def result(self, wait: bool, stop: Callable[[], bool]) -> Evaluation | None:
        """What was begun, if it is there by now, or else when it is; None also if `stop()` becomes true first. If the
        process was lost, another one evaluates the same agent."""
        while self._order is not None:
            if self._transport.first_done(self._calls[-1:], POLL_SECONDS if wait else 0.0) is not None:
                evaluation = self._take()
                if evaluation is not None:
                    return evaluation
            if stop() or not wait:
                return None
        return None

    def _take(self) -> Evaluation | None:
        """The result of the last call, after those before it; None if the process was lost."""
        calls, self._calls = self._calls, []
        try:
            for call in calls:
                answer = self._transport.result(call, None)
                if len(calls) > 1 and call is calls[0]:
                    self._collectors.check(answer)
        except CollectorLost as error:
            self._replace(lost_reason(error, 0.0))
            return None
        except RookeryError as error:
            error.add_note(f"in {self._name}")
            raise
        self._order = None
        assert isinstance(answer, Evaluation)
        return answer

    def _replace(self, reason: str) -> None:
        name = self._name
        self._losses.count(name, reason)
        self._transport.kill(self._handle)
        self._start()
        self._collectors.note(f"{name} {reason}: another one evaluates the same weights")
        assert self._order is not None
        self.begin(*self._order)

    @property
    def _name(self) -> str:
        return f"the evaluator (on {self._transport.place(self._handle)})"

    def close(self) -> None:
        """End its process, also in the middle of an evaluation."""
        if not self._calls:
            with suppress(Exception):
                self._transport.result(self._call("close"), CLOSE_SECONDS)
        self._transport.kill(self._handle)


class EvaluatorActor(NodeProcess):
    """Has the run's evaluator, with envs of its own."""

    _evaluator: Evaluator | None = None

    def open(self, run: ResolvedRun) -> None:
        allow(reached_by(run.config))
        keep_memory()
        self._evaluator = make_evaluator(run)

    def evaluate(self, agent: Tree, most_steps: float) -> Evaluation:
        """What the evaluator in the run's own process finds for the same weights; see `Evaluator.run`."""
        if self._evaluator is None:
            raise RookeryError("the evaluator was not opened")
        evaluation = self._evaluator.run(agent_from(agent, "cpu"), most_steps=most_steps)
        assert evaluation is not None  # nobody stops it
        return evaluation

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()


MOST_SHOWN = 32  # collectors with a figure of their own: more would be more than anybody reads
CHECK_SECONDS = 5.0  # between two looks at the nodes
LEAVE_SECONDS = 30.0  # a node that is replaced sooner costs only what was lost with it


class RemoteEnvs(VectorEnv):
    """What a run needs to know of its engine, for envs that collectors step."""

    def __init__(self, run: ResolvedRun, transport: Transport) -> None:
        config = run.config
        self.source, self.backend = run.env_world.factory, config.backend
        workers = transport.slots(config.cluster.nodes)[: run.num_envs]
        if config.workers is not None and config.cluster.address is None:
            workers = [max(1, config.workers // len(workers)) for _ in workers]
        self._config, self._learner_name, on_policy = config, config.learner, config.learner == "ppo"
        self.max_staleness = config.cluster.max_staleness or (4 if on_policy else 256)
        self.transport = transport
        self._waits = on_policy and not config.cluster.asynchronous  # whether collectors wait for the learner
        self.collectors = RemoteCollectors(transport, divide_envs(run, workers), config, own=self._waits)
        self.figures = ClusterFigures(self.collectors, transport)
        fixed = config.cluster.nodes is not None
        self._helpers: Any = None  # `HelperLearners`, where several learn
        self._follower = None if fixed else NodeFollower(self.collectors, transport, run)
        self.description = self.collectors.descriptions[0]
        self.single_observation_space = self.description.observation_space
        self.single_action_space = self.description.action_space
        self.num_worlds, self.num_envs = run.num_envs, run.num_rows
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**self.description.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.threads = max(workers)
        self.usage: list[dict[str, Any]] = []  # of the workers of collectors in other processes

    def make_collector(self, learner: Learner, stopwatch: Stopwatch, share_done: Callable[[int], float]) -> Collector:
        """What collects the run's rollouts."""
        agent = learner.agent
        spaces = agent.observation_space, agent.action_space
        for handle in self.collectors.handles:
            if isinstance(handle, OwnCollector):
                handle.lend(learner, stopwatch)
        self.collectors.use_learner(self._learner_name, spaces, learner.options, self.threads)
        if leads(self._config.cluster):
            self._start_helpers(learner)
        waiting = RemoteRolloutCollector if self._waits else AsyncRolloutCollector
        kind = waiting if learner.on_policy else RemoteStepCollector
        return kind(self, learner, stopwatch, share_done)

    def make_evaluator(self, run: ResolvedRun) -> RemoteEvaluator:
        """The run's evaluator, as a process of its own."""
        return RemoteEvaluator(run, self.transport, self.collectors)

    def _start_helpers(self, learner: Any) -> None:
        from rookery.cluster.helper_learners import HelperLearners  # it imports torch.distributed

        self._helpers = HelperLearners(self.transport, self.collectors, self._config, learner)
        learner.execution.helpers = self._helpers
        self.figures.helpers = self._helpers

    def follow_nodes(self) -> list[Share]:
        """Between two rollouts: use nodes that have joined. Returns the shares whose envs have begun new episodes."""
        restarted, self.collectors.restarted = self.collectors.restarted, []
        return restarted if self._follower is None else [*restarted, *self._follower.follow()]

    def facts(self) -> dict[str, Any]:
        """Of the cluster, for the run's first event."""
        return self.figures.facts()

    @property
    def on_note(self) -> Callable[[str], None] | None:
        """Receives what collectors and their engines have to say."""
        return self.collectors.on_note

    @on_note.setter
    def on_note(self, tell: Callable[[str], None] | None) -> None:
        self.collectors.on_note = tell

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[None, dict[str, Any]]:
        """New episodes in all envs. Observations stay where the envs are."""
        root = seeding.root_of(seed)
        self.collectors.reset(seeding.fresh_entropy() if root is None else root)
        return None, {}

    @property
    def shares(self) -> list[int]:
        """How many envs each collector has."""
        return [share.num_envs for share in self.collectors.shares]

    def state_dict(self, portable: bool = True) -> Tree:
        """The state of all envs, by collector."""
        if not self._waits:
            raise StateError("collectors continue while a checkpoint is written, so their envs cannot be saved with it")
        states = {str(k): state for k, state in enumerate(self.collectors.states())}
        restarted = [share.index for share in self.collectors.restarted]
        lost = self.collectors.times_lost
        return {"shares": self.shares, "lost": lost, "restarted": restarted, "collectors": states}

    def load_state_dict(self, state: Tree) -> None:
        """Continue from a `state_dict()` with the same shares."""
        if state.get("shares") != self.shares:
            raise StateError(f"the state was saved with other shares of the envs than {self.shares}")
        self.collectors.load([state["collectors"][str(k)] for k in range(len(self.shares))], state["lost"])
        self.collectors.restarted = [self.collectors.shares[k] for k in state.get("restarted", [])]

    @property
    def restarts(self) -> int:
        """How many times an env or a worker of a collector was restarted so far."""
        return self.collectors.env_restarts

    def stats(self) -> list[dict[str, Any]]:
        """As of other engines; of collectors in other processes as they were about a second ago."""
        own = [handle.engine.stats() for handle in self.collectors.handles if isinstance(handle, OwnCollector)]
        return [*(worker for workers in own for worker in workers), *self.usage]

    def close_extras(self, **kwargs: Any) -> None:
        """End all collectors, and learners that help."""
        if self._helpers is not None:
            self._helpers.close()
        self.collectors.close()


@contextmanager
def open_ray_envs(run: ResolvedRun) -> Iterator[RemoteEnvs]:
    """On the cluster that the config names, or on one that is started here and ends with the run."""
    with open_ray(run.config.cluster.address) as transport, closing(RemoteEnvs(run, transport)) as envs:
        yield envs


class ClusterFigures:
    """Adds up what travels and what collectors do, between two reports."""

    def __init__(
        self, collectors: RemoteCollectors, transport: Transport, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._collectors, self._transport, self._clock = collectors, transport, clock
        self.helpers: Any = None  # `HelperLearners`, where several learn
        self._since, self._bytes = clock(), 0
        self._work: defaultdict[int, float] = defaultdict(float)  # seconds, by collector

    def add(self, index: int, seconds: float, travelled: int) -> None:
        """A collector has worked so long for what it returned, and so many bytes have travelled for it."""
        self._work[index] += seconds
        self._bytes += travelled

    def take(self) -> dict[str, float]:
        """For events: shares and rates since the last call."""
        now = self._clock()
        seconds, self._since = max(now - self._since, 1e-9), now
        handles = self._collectors.handles
        busy = [min(1.0, self._work[k] / seconds) for k in range(len(handles))]
        travelled, self._bytes = self._bytes, 0
        self._work.clear()
        shown = busy if 1 < len(busy) <= MOST_SHOWN else []
        return {
            "cluster/nodes": len({self._transport.place(handle) for handle in handles}),
            "cluster/collectors": len(handles),
            "cluster/lost": self._collectors.losses,
            "cluster/bytes_per_second": travelled / seconds,
            "cluster/busy": sum(busy) / len(busy),
            **{f"cluster/busy_{k}": share for k, share in enumerate(shown)},
            **({} if self.helpers is None else self.helpers.figures()),
        }

    def facts(self) -> dict[str, Any]:
        """For the run's first event: who has which envs where, and the address of the cluster's own dashboard."""
        pairs = zip(self._collectors.handles, self._collectors.shares, strict=True)
        places = [f"{self._transport.place(handle)}: {share.text}" for handle, share in pairs]
        return {"collectors": places, "cluster_dashboard": self._transport.dashboard()}


class NodeFollower:
    """Keeps one collector on every node. A process on a new node starts in the background, and gets envs when it is
    ready: those of a collector that shares its node with another one since its own was lost, else a part of all."""

    def __init__(self, collectors: RemoteCollectors, transport: Transport, run: ResolvedRun) -> None:
        self._collectors, self._transport, self._run = collectors, transport, run
        self._joining: tuple[Any, Any] | None = None  # a process on a new node, and its first call
        self._refused = 0  # nodes that differ from this one
        self._look_at = time.monotonic() + CHECK_SECONDS
        self._crowded_since: float | None = None
        self.clock: Callable[[], float] = time.monotonic

    def follow(self) -> list[Share]:
        """What has changed by now; returns the shares whose envs have begun new episodes."""
        if self._joining is None and self.clock() < self._look_at:
            return []
        self._look_at = self.clock() + CHECK_SECONDS
        if self._joining is not None:
            return self._join()
        if self._transport.idle_nodes() > self._refused and len(self._collectors.shares) < self._run.num_envs:
            handle = self._transport.start(len(self._collectors.shares))
            self._joining = handle, self._transport.call(handle, "facts", *self._collectors.code)
            return []
        return self._leave()

    def _join(self) -> list[Share]:
        """Give envs to the process on a new node, once it is ready."""
        assert self._joining is not None
        handle, call = self._joining
        if self._transport.first_done([call], 0.0) is None:
            return []
        self._joining = None
        try:
            self._collectors.check(self._transport.result(call, 0.0))
        except (CollectorLost, TimeoutError, RunError) as error:
            self._transport.kill(handle)
            self._refused += isinstance(error, RunError)
            self._collectors.note(f"a node that joined gets no envs: {error}")
            return []
        handles = self._collectors.handles
        crowded = self._transport.crowded(handles)
        if not crowded:
            return self._divide([*handles, handle], "a node has joined")
        self._crowded_since = None
        moved = [handle if each is crowded[0] else each for each in handles]
        return self._assign(moved, self._collectors.shares, "a node has joined")

    def _leave(self) -> list[Share]:
        """Divide the envs of a node that is gone, and was not replaced, over the others."""
        crowded = self._transport.crowded(self._collectors.handles)
        if not crowded:
            self._crowded_since = None
            return []
        if self._crowded_since is None:
            self._crowded_since = self.clock()
        if self.clock() - self._crowded_since < LEAVE_SECONDS:
            return []
        self._crowded_since = None
        return self._divide([each for each in self._collectors.handles if each is not crowded[0]], "a node has left")

    def _divide(self, handles: list[Any], why: str) -> list[Share]:
        return self._assign(handles, divide_envs(self._run, self._transport.slots(len(handles))), why)

    def _assign(self, handles: list[Any], shares: list[Share], why: str) -> list[Share]:
        changed = self._collectors.assign(handles, shares)
        names = ", ".join(share.text for share in changed)
        self._collectors.note(
            f"{why}: {len(shares)} collectors step the envs now; {names} begin new episodes, and from here on the "
            "numbers of the run depend on when that happened"
        )
        return changed
