"""Rollouts and updates on a GPU: each is one replay of a CUDA graph, and the host waits only to stay close.

The envs return tensors whose addresses stay, and nothing between two updates is read back. What a user sees (metrics,
episodes, speeds) is read when something is logged, evaluated or saved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from rookery.learners.algorithms.ppo import METRICS
from rookery.learners.execution.captured_call import CapturedCall
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.training.evaluation.win_record import outcomes_of
from rookery.training.run.collector import Collector
from rookery.training.run.device_metrics import DeviceMetrics, DeviceTimes
from rookery.training.run.latest_episodes import LatestEpisodes

# Options that captured work reads from tensors; when another one changes, the work is captured again.
NOT_CAPTURED = {"learning_rate", "learning_rate_schedule", "clip", "clip_schedule", "threads"}
AHEAD = 2  # iterations that the host may be ahead of the GPU: enough to keep it busy


class DeviceCollector(Collector):
    """For an on-policy learner and envs that return tensors on its device."""

    is_asynchronous = True
    learner: Any  # an `OnPolicy`
    envs: Any  # a `CudaEngine`, or what has its methods

    def use(self, envs: Any) -> None:
        self.envs = envs
        learner, device = self.learner, self.learner.device
        generators = [learner.generator]
        self._rollout = CapturedCall(
            self._make_rollout,
            device,
            state=self._rollout_state,
            generators=[*generators, *getattr(envs, "generators", ())],  # of opponents
            name="a rollout",
            plain=not getattr(envs, "can_be_captured", False),
        )
        self._update = CapturedCall(
            self._make_update,
            device,
            state=learner.device_state,
            generators=generators,
            name="an update",
            plain=learner.processes > 1,  # it waits for other processes
        )
        self._latest_metrics = torch.zeros(len(METRICS), device=device)
        self._episodes = LatestEpisodes(envs)
        self._times = DeviceTimes(device, self.stopwatch)
        self._in_flight: deque[Any] = deque()
        self._options, self._captured = learner.options, self._constants()

    @property
    def is_fused(self) -> bool:
        return True

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        self.learner.progress = self._share_done(self.steps)
        self._episodes.begin()

    @property
    def masks(self) -> np.ndarray | None:
        """None: the envs' own state has them."""
        return None

    # --- collecting ---------------------------------------------------------------------------------------------

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """A complete rollout, whatever `rounds` is: a rollout is one piece of work."""
        while len(self._in_flight) >= AHEAD:
            self._times.add(self._in_flight.popleft())
        self._follow_options()
        self._marks = [self._times.mark()]
        self._call_envs("before_rollout")
        self._rollout()
        self._call_envs("after_rollout", self.learner.rollout.length)
        self._marks.append(self._times.mark())
        self._count(self.learner.rollout.length * self.envs.num_envs)

    def _follow_options(self) -> None:
        """Phases and callbacks change options, which captured work holds as constants."""
        if self.learner.options is self._options:
            return
        self._options = self.learner.options
        if self._constants() != self._captured:
            self._captured = self._constants()
            self.release()

    def _constants(self) -> dict[str, Any]:
        return self.learner.options.model_dump(exclude=NOT_CAPTURED)

    def _call_envs(self, name: str, *args: int) -> None:
        """What the host does between two rollouts for a curriculum: it decides on phases and opponents."""
        method = getattr(self.envs, name, None)
        if method is not None:
            method(*args)

    def _make_rollout(self) -> None:
        learner, envs = self.learner, self.envs
        rows, rollout = slice(0, envs.num_envs), learner.rollout
        rollout.clear()
        observations, mask = envs.present()
        for _ in range(rollout.length):
            actions = learner.explore(observations, rows, mask)
            observations, rewards, terminated, truncated, last = envs.step_for_learner(actions)
            mask = envs.present()[1]
            finals = TensorFinals(partial(torch.logical_or, terminated, truncated), last)
            learner.record(rows, StepBatch(observations, rewards, terminated, truncated, finals, mask))

    def _rollout_state(self) -> list[torch.Tensor]:
        return [*self.envs.device_state(), self.learner.memory]

    # --- updating -----------------------------------------------------------------------------------------------

    def update(self) -> None:
        learner = self.learner
        self.set_progress()
        learner.set_schedules()
        self._update()
        learner.rollout.forget()
        learner.updates += 1
        self.metrics = DeviceMetrics(METRICS, self._latest_metrics)
        self._marks.append(self._times.mark())
        self._in_flight.append(self._marks)

    def _make_update(self) -> None:
        self._latest_metrics.copy_(self.learner.learn())

    def set_progress(self) -> None:
        rollout = self.learner.rollout.length * self.envs.num_envs * self.learner.processes
        self.learner.progress = self._share_done(self.steps - rollout)

    # --- what the run sees --------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Until everything is done that was begun; raises what an env has found wrong."""
        while self._in_flight:
            self._times.add(self._in_flight.popleft())
        self.envs.check()

    def finished_episodes(self) -> np.ndarray:
        """Episodes that ended since the last call: of each env the latest one. `uncounted_episodes` has the number of
        those that are not in the list."""
        self.wait()
        finished = self._episodes.take()
        self.uncounted_episodes += self._episodes.others
        if len(finished):
            rows, returns, lengths = self._episodes.window()
            self.on_window(returns, lengths)
            infos = self._episodes.infos_of(rows)
            self.on_outcomes(outcomes_of(infos, self.envs.metadata))
            self.on_final_numbers(infos, self.envs.metadata)
            self.on_final_infos(slice(0, self.envs.num_envs), self._episodes.infos_of(finished["env"]))
        return finished

    def resize(self, num_envs: int, seed: int) -> None:
        raise NotImplementedError("the number of envs on a GPU is fixed")

    def release(self) -> None:
        """Capture again at the next rollout: an option of the learner, or an address, has changed."""
        for call in (self._rollout, self._update):
            call.release()
