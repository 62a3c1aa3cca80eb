"""The collector of a run whose envs step elsewhere: weights and noise go out, parts of rollouts come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rookery.cluster.collector_actor import OwnCollector
from rookery.cluster.transport import nbytes
from rookery.engine.segment_stepping import EPISODE
from rookery.learners.learner import Learner, module_state
from rookery.learners.remote_steps import join_parts
from rookery.training.run.collector import Collector
from rookery.training.run.timing import Stopwatch

INEXACT = (
    "the policy acts by torch, which rounds differently in batches of another size: with another number of collectors "
    "the numbers of this run differ"
)


class RemoteCollector(Collector):
    """A collector of envs that have begun and step elsewhere."""

    envs: Any  # `RemoteEnvs`, which makes this

    def __init__(self, envs: Any, learner: Learner, stopwatch: Stopwatch, share_done: Callable[[int], float]) -> None:
        self._finished: list[np.ndarray] = []
        super().__init__(envs, learner, stopwatch, share_done)

    def use(self, envs: Any) -> None:
        self.envs, self._fused = envs, None

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        self.learner.progress = self._share_done(self.steps)

    def _tell_info(self, first: int, infos: dict[str, Any], steps: int) -> None:
        """The infos of one step of envs from row `first` on, after so many steps of the run."""
        count = len(infos["_final_info"] if "_final_info" in infos else infos["_hints"])
        self._tell(slice(first, first + count), infos, steps)

    def finished_episodes(self) -> np.ndarray:
        finished, self._finished = self._finished, []
        return np.concatenate(finished) if finished else np.zeros(0, EPISODE)

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = self.envs.figures.take()
        return found


class RemoteRolloutCollector(RemoteCollector):
    """Fills the learner's rollouts by remote collectors. Noise is drawn here, for all envs by their numbers, so the
    rollout is the one that a `Collector` with all envs would have filled."""

    learner: Any  # on-policy

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        super().begin(observations, infos)
        if len(self.envs.shares) > 1 and not self.learner.accelerator.acts_by_row:
            self.envs.on_note(INEXACT)

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """A whole rollout; it is completed also if the run is to stop."""
        self.stopwatch.start()
        learner = self.learner
        for share in self.envs.follow_nodes():
            learner.memory[share.rows] = 0.0
        lone = self.envs.collectors.handles[0]
        if isinstance(lone, OwnCollector) and lone.fills_rollouts:
            answer = self.envs.collectors.own_part(lone.fill_rollout)
            self._finished.append(answer["episodes"])
            self.envs.figures.add(0, answer["seconds"], 0)
            self._count_rollout([answer])
        else:
            self._collect_parts()
        self.stopwatch.lap("policy")

    def _collect_parts(self) -> None:
        learner = self.learner
        learner.begin_rollout()
        weights, memory = module_state(learner.policy), learner.memory.numpy()
        self.stopwatch.lap("policy")
        answers = self.envs.collectors.collect(weights, learner.rollout.noise_array, memory)
        self.stopwatch.lap("waiting")
        self._count_work(nbytes(weights), answers)
        self._join(answers)
        self._count_rollout(answers)

    def _count_work(self, weights: int, answers: list[dict[str, Any]]) -> None:
        """How long collectors have worked, and how many bytes went to other processes and came from there."""
        for k, (handle, answer) in enumerate(zip(self.envs.collectors.handles, answers, strict=True)):
            travelled = 0 if isinstance(handle, OwnCollector) else weights + nbytes(answer["rollout"])
            self.envs.figures.add(k, answer["seconds"], travelled)

    def _join(self, answers: list[dict[str, Any]]) -> None:
        rollout, shares = self.learner.rollout, self.envs.collectors.shares
        join_parts(rollout, [(share.rows, answer["rollout"]) for share, answer in zip(shares, answers, strict=True)])
        episodes = np.concatenate([answer["episodes"] for answer in answers])
        counts = [len(answer["episodes"]) for answer in answers]
        episodes["env"] += np.repeat([share.rows.start for share in shares], counts)
        self._finished.append(_oldest_first(episodes, rollout.ended))
        for share, answer in zip(shares, answers, strict=True):
            self.learner.memory[share.rows] = torch.from_numpy(np.array(answer["memory"]))

    def _count_rollout(self, answers: list[dict[str, Any]]) -> None:
        rollout = self.learner.rollout
        self.ended += int(rollout.ended.sum())
        self._tell_infos(answers)
        self.envs.usage = [usage for answer in answers for usage in answer["usage"]]
        self._count(rollout.length * rollout.envs)

    def _tell_infos(self, answers: list[dict[str, Any]]) -> None:
        """The infos of all steps, in the order in which one process has them."""
        shares = self.envs.collectors.shares
        told = [
            (step, share.rows.start + first, infos)
            for share, answer in zip(shares, answers, strict=True)
            for step, first, infos in answer["infos"]
        ]
        for step, first, infos in sorted(told, key=lambda each: each[:2]):
            self._tell_info(first, infos, self.steps + (step + 1) * self.envs.num_envs)


def _oldest_first(episodes: np.ndarray, ended: torch.Tensor) -> np.ndarray:
    """Episodes of all collectors, each oldest first, in the order of the steps [steps, envs] in which they ended."""
    rows = np.nonzero(ended.numpy())[1]
    places = np.argsort(rows, kind="stable")  # of each env's episodes among all, env by env
    by_env = np.argsort(episodes["env"], kind="stable")
    if not np.array_equal(rows[places], episodes["env"][by_env]):  # some were lost with a worker
        return episodes
    ordered = np.empty_like(episodes)
    ordered[places] = episodes[by_env]
    return ordered
