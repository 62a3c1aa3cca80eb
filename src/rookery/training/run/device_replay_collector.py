"""Off-policy learning beside envs on a GPU: a round of steps is one replay of a CUDA graph, and so are its updates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from rookery.learners.execution.captured_call import CapturedCall
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.training.run.device_collector import AHEAD, DeviceCollector
from rookery.training.run.device_metrics import DeviceTimes
from rookery.training.run.latest_episodes import LatestEpisodes


class DeviceReplayCollector(DeviceCollector):
    """For an off-policy learner and envs that return tensors on its device. After each round come the updates that are
    due, by counts which the host knows, so that nothing is read back."""

    learner: Any  # an `OffPolicy`

    def use(self, envs: Any) -> None:
        self.envs = envs
        self.learner.use_tensors()
        self._rounds: dict[tuple[Any, ...], CapturedCall] = {}
        self._episodes = LatestEpisodes(envs)
        self._times = DeviceTimes(self.learner.device, self.stopwatch)
        self._in_flight: deque[Any] = deque()

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """So many rounds with their updates, or fewer if `stop()` is true."""
        self._call_envs("before_rollout")
        before = self.steps
        for _ in range(rounds):
            self._round()
            if stop():
                break
        self._call_envs("after_rollout", (self.steps - before) // self.envs.num_envs)

    def _round(self) -> None:
        while len(self._in_flight) >= AHEAD:
            self._times.add(self._in_flight.popleft())
        marks = [self._times.mark()]
        self.learner.begin_round()
        self._captured_round()()
        self.learner.count_steps()
        self._count(self.envs.num_envs)
        marks.append(self._times.mark())
        self.update()
        marks.append(self._times.mark())
        self._in_flight.append(marks)

    def _captured_round(self) -> Callable[[], None]:
        """The next round, captured if it is of a kind that comes often."""
        kind = self.learner.round_kind
        if not getattr(self.envs, "can_be_captured", False) or not self.learner.rounds.completes:
            return self._make_round
        if kind not in self._rounds:
            self.release()  # a kind that is over does not come back
            self._rounds[kind] = CapturedCall(
                self._make_round,
                self.learner.device,
                state=self._round_state,
                generators=[self.learner.generator, *getattr(self.envs, "generators", ())],
                name="a round",
            )
        return self._rounds[kind]

    def _make_round(self) -> None:
        learner, envs = self.learner, self.envs
        observations, mask = envs.present()
        actions = learner.explore(observations, slice(0, envs.num_envs), mask)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        finals = TensorFinals(infos["_final_obs"], infos["final_obs"])
        learner.record_tensors(StepBatch(observations, rewards, terminated, truncated, finals, envs.present()[1]))

    def _round_state(self) -> list[torch.Tensor]:
        return [*self.envs.device_state(), *self.learner.round_tensors()]

    def update(self) -> None:
        """Make all updates that are due."""
        if self.learner.ready():
            self.set_progress()
            self.metrics = self.learner.update()

    def set_progress(self) -> None:
        self.learner.progress = self._share_done(self.steps)

    def release(self) -> None:
        """Capture again at the next round."""
        for call in self._rounds.values():
            call.release()
        self._rounds.clear()
