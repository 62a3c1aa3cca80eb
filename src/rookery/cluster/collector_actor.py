"""The process that steps a share of a run's envs on some node: an engine, and a copy of the policy that acts there.

It is a plain class: an actor of Ray in a run, an object of this process in tests.
"""

from __future__ import annotations

import copy
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from rookery.cluster.env_shares import Share
from rookery.cluster.node_facts import NodeProcess
from rookery.engine.engine import Engine
from rookery.engine.seeding import ChildSeeds
from rookery.engine.worker_envs import EnvDescription
from rookery.gate import allow
from rookery.learners import registry
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.learner import Learner, StepBatch, Tree
from rookery.learners.normalize import RunningNorm
from rookery.learners.remote_steps import ChunkWriter, RolloutPart, StepChunk, take_part
from rookery.training.run.collector import Collector, CollectorPart, finals
from rookery.training.run.components import make_engine
from rookery.training.run.timing import Stopwatch
from rookery.training.storage.trust import reached_by

USAGE_SECONDS = 1.0


class CollectorActor(NodeProcess):
    """Collects whole rollouts of its envs: weights and noise in, arrays out."""

    engine: Engine
    learner: Any
    collector: Collector

    def __init__(self) -> None:
        self._open = ExitStack()
        self._notes: list[str] = []
        self._told_restarts = 0
        self._has_infos = False  # whether any episode has ended with infos
        self._began = 0.0  # the present rollout or chunk
        self._infos: list[tuple[int, int, dict[str, Any]]] = []  # step, number of the first row, infos
        self._used: list[dict[str, Any]] = []
        self._used_at = -math.inf

    def open(self, share: Share) -> EnvDescription:
        """Make the envs, and end those of an earlier share; returns what an engine knows of them."""
        self.close()
        self._used_at = -math.inf
        allow(reached_by(share.run.config))
        keep_memory()
        self.share = share
        self.engine = make_engine(share.run)
        self._open.callback(self.engine.close)
        self.engine.on_note, self._told_restarts = self._notes.append, 0
        return self.engine.description

    def use_learner(self, name: str, spaces: tuple[Any, Any], options: Any, threads: int) -> None:
        """Make the policy that acts here; its weights come with every rollout."""
        num_envs = self.engine.num_envs
        if hasattr(options, "buffer_size"):  # the replay buffer is where the learner is
            options = options.model_copy(update={"buffer_size": num_envs * options.n_step})
        learner = registry.make_learner(name, *spaces, options, num_envs, 0, "cpu")
        learner.use_threads(threads)
        self._open.enter_context(small_products(learner))
        kind = Collector if learner.on_policy else StepCollector
        self._collect_by(kind(self.engine, learner, Stopwatch(), lambda steps: 0.0))

    def _collect_by(self, collector: Collector) -> None:
        self.collector, self.learner = collector, collector.learner
        self.collector.on_final_infos = partial(self._keep_infos, "final_info")
        self.collector.on_hints = lambda step, rows, infos: self._keep_infos("hints", rows, infos)

    def _keep_infos(self, name: str, rows: slice, infos: dict[str, Any]) -> None:
        """Keep one of the infos that the run reads."""
        kept = {name: infos[name], f"_{name}": infos[f"_{name}"]}
        self._infos.append((self._steps_made(rows), rows.start, kept))

    def _taken_infos(self) -> list[tuple[int, int, dict[str, Any]]]:
        """Of all ends of episodes, as some may have no infos; of none before the first one that has any."""
        infos = _taken(self._infos)
        self._has_infos = self._has_infos or any(step.get("final_info") for _, _, step in infos)
        return [each for each in infos if self._has_infos or "final_info" not in each[2]]

    def _steps_made(self, rows: slice) -> int:
        """In the present rollout or chunk."""
        collector = self.collector
        return collector.steps_made if isinstance(collector, StepCollector) else self.learner.rollout.steps_made(rows)

    def reset(self, root: int, seeds: list[int]) -> None:
        """New episodes in all envs, with these seeds; those of envs that are restarted derive from `root`."""
        given = ChildSeeds(root, 0)
        given.extend(seeds)
        self._seed_noise(seeds[0])
        self.collector.begin(*self.engine.reset(seed=given))

    def _seed_noise(self, seed: int) -> None:
        """For collectors whose rollouts do not come with their noise."""
        self.learner.generator.manual_seed(seed)

    def load(self, state: Tree) -> None:
        observations = self.engine.load_state_dict(state["engine"])
        self.collector.begin(observations, {"action_mask": state["masks"]} if "masks" in state else {})

    def state(self) -> Tree:
        """The envs' own state and the action masks of their next step; StateError if they cannot be saved."""
        masks = self.collector.masks
        state: Tree = {"engine": self.engine.state_dict(portable=True)}
        return state if masks is None else state | {"masks": masks}

    def collect(self, weights: Tree, noise: np.ndarray, memory: np.ndarray) -> dict[str, Any]:
        """A rollout of all envs with these weights."""
        self._began = time.perf_counter()
        learner = self.learner
        _take_weights(learner.policy, weights)
        learner.memory.copy_(torch.from_numpy(np.array(memory)))
        learner.rollout.clear()
        learner.rollout.begin(torch.from_numpy(np.array(noise)), learner.memory)
        learner.accelerator.invalidate()
        self.collector.collect(learner.rollout.length, lambda: False)
        rollout: RolloutPart = take_part(learner.rollout)
        return {"rollout": rollout, "memory": learner.memory.numpy(), **self._told()}

    def collect_rollout(self, weights: Tree) -> dict[str, Any]:
        """A rollout of all envs with these weights and noise of this process, for a learner that does not wait for
        it."""
        self._began = time.perf_counter()
        learner = self.learner
        _take_weights(learner.policy, weights)
        learner.rollout.clear()
        learner.begin_rollout()
        self.collector.collect(learner.rollout.length, lambda: False)
        rollout = take_part(learner.rollout) | {"log_probs": learner.acted_log_probs().numpy()}
        return {"rollout": rollout, **self._told()}

    def collect_steps(self, weights: Tree, progress: float, steps: int, rounds: int) -> dict[str, Any]:
        """So many steps of every env with these weights, for a learner that has recorded so many `steps`."""
        self._began = time.perf_counter()
        assert isinstance(self.collector, StepCollector)
        _take_weights(self.learner.policy, weights)
        self.learner.accelerator.invalidate()
        self.learner.progress, self.learner.execution.steps = progress, steps
        return {"chunk": self.collector.chunk(rounds), **self._told()}

    def _told(self) -> dict[str, Any]:
        """What comes with every rollout."""
        return {
            "episodes": self.collector.finished_episodes(),
            "infos": self._taken_infos(),
            "notes": _taken(self._notes),
            "restarts": self._new_restarts(),
            "usage": self._usage(),
            "seconds": time.perf_counter() - self._began,
        }

    def _new_restarts(self) -> int:
        """Restarts of its envs that it has not told of."""
        told, self._told_restarts = self._told_restarts, self.engine.restarts
        return self._told_restarts - told

    def _usage(self) -> list[dict[str, Any]]:
        """Of the engine's workers, as of the last second: to ask for it takes 0.3 ms, and a rollout may take 5."""
        now = time.monotonic()
        if now - self._used_at >= USAGE_SECONDS:
            self._used, self._used_at = self.engine.stats(), now
        return self._used

    def close(self) -> None:
        """End the envs."""
        self._open.close()


def _taken(values: list[Any]) -> list[Any]:
    taken = list(values)
    values.clear()
    return taken


def _take_weights(policy: torch.nn.Module, weights: Tree) -> None:
    """In place. They are those of an equal policy, so nothing is checked: torch's own way takes a millisecond."""
    for name, held in policy.state_dict().items():
        np.copyto(held.numpy(), weights[name])
    for module in policy.modules():
        if isinstance(module, RunningNorm):
            module.refresh()


class StepCollector(Collector):
    """Makes chunks of steps with a copy of the policy."""

    learner: Any  # off-policy
    steps_made = 0  # of the present chunk

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._writer = ChunkWriter(self.learner)

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        super().begin(observations, infos)
        self._writer.begin(observations)

    def chunk(self, rounds: int) -> StepChunk:
        """So many steps of every env."""
        self.steps_made = 0
        self.collect(rounds, lambda: False)
        return self._writer.take()

    def _record(self, part: CollectorPart, step: tuple[Any, ...]) -> None:
        observations, rewards, terminated, truncated, infos = step
        part.observations, part.mask = observations, self._mask_of(observations, infos)
        if "final_obs" in infos:
            self.ended += int(np.count_nonzero(infos.get("_final_info", infos["_final_obs"])))
        self._tell(part.rows, infos, self.steps)
        self._writer.add(StepBatch(observations, rewards, terminated, truncated, finals(infos), part.mask))
        self.steps_made += 1


class OwnCollector(CollectorActor):
    """A collector in the learner's own process, which waits for rollouts anyway: nothing of its part has to travel. Its
    handle is the collector itself. With PPO on CartPole on two cores, a rollout and its update take 9 ms, and a way
    through Ray would add 5."""

    _lender: Learner | None = None
    _stopwatch: Stopwatch

    def lend(self, learner: Learner, stopwatch: Stopwatch) -> None:
        """Let it act for this learner of the same process: by its policy if it has all envs, else on its threads."""
        self._lender, self._stopwatch = learner, stopwatch

    @property
    def fills_rollouts(self) -> bool:
        """Whether it has all envs, and so writes into the learner's own rollout. To copy the weights, and the rollout
        back, took 1 ms of 9 with PPO on CartPole."""
        return self._lender is not None and self.learner is self._lender

    def use_learner(self, *learning: Any) -> None:
        lender = self._lender
        if lender is not None and lender.on_policy and lender.num_envs == self.engine.num_envs:
            # The process that requests rollouts counts the steps of the run, by which schedules continue.
            self._collect_by(Collector(self.engine, lender, self._stopwatch, lambda steps: lender.progress))
            return
        super().use_learner(*learning)
        if lender is not None:
            self.learner.accelerator.borrow_threads(lender.accelerator)

    def fill_rollout(self) -> dict[str, Any]:
        """A rollout of all envs, in the learner's own memory; returns what comes with it."""
        self._began = time.perf_counter()
        self.collector.collect(self.learner.steps_until_update, lambda: False)
        return self._told()

    def _seed_noise(self, seed: int) -> None:
        """Not the learner's own, which draws it in the order of a run without a cluster."""
        if not self.fills_rollouts:
            super()._seed_noise(seed)

    def _usage(self) -> list[dict[str, Any]]:
        """The engine has it."""
        return []


@dataclass(frozen=True)
class OwnCall:
    """A call of it, which is made when its result is requested: those of other collectors have begun by then."""

    collector: OwnCollector
    method: str
    args: tuple[Any, ...]

    def result(self) -> Any:
        """What it returns. A rollout is used before the next one begins, all else is copied as if it had travelled."""
        found = getattr(self.collector, self.method)(*self.args)
        return found if self.method == "collect" else copy.deepcopy(found)
