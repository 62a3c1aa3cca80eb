"""The envs of a run that step on the nodes of a cluster, in the place of the run's engine.

The loop steps no env here: it asks for whole rollouts, by `RemoteRolloutCollector`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rookery.cluster.async_rollout_collector import AsyncRolloutCollector
from rookery.cluster.cluster_figures import ClusterFigures
from rookery.cluster.env_shares import Share, divide_envs
from rookery.cluster.node_follower import NodeFollower
from rookery.cluster.own_collector import OwnCollector
from rookery.cluster.remote_collectors import RemoteCollectors
from rookery.cluster.remote_evaluator import RemoteEvaluator
from rookery.cluster.remote_step_collector import RemoteStepCollector
from rookery.cluster.rollout_collector import RemoteRolloutCollector
from rookery.cluster.transport import Transport
from rookery.config.sections import leads
from rookery.engine import seeding
from rookery.errors import StateError
from rookery.learners.learner import Learner, Tree
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch


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

        learner.helpers = self._helpers = HelperLearners(self.transport, self.collectors, self._config, learner)
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
            raise StateError("collectors go on while a checkpoint is written, so their envs cannot be saved with it")
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
