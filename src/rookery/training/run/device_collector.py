"""Envs and learner on one GPU: rollouts, rounds and updates are each a replay of a CUDA graph, and the host waits only
to stay close.

The envs return tensors whose addresses stay, and nothing between two updates is read back. What a user sees (metrics,
episodes, speeds) is read when something is logged, evaluated or saved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rookery.learners.captured_call import CapturedCall
from rookery.learners.execution.choose import use_tensor_envs
from rookery.learners.learner import StepBatch, TensorFinals
from rookery.training.evaluation.win_record import outcomes_of
from rookery.training.run.collector import Collector
from rookery.training.run.latest_episodes import LatestEpisodes
from rookery.training.run.timing import Stopwatch


# Metrics and times of work on a GPU, read when somebody looks at them.
class DeviceMetrics(Mapping[str, float]):
    """Numbers in a tensor, as a dict. They are read at the first look, which waits for the device.

    >>> dict(DeviceMetrics(("kl", "entropy"), torch.tensor([0.5, 2.0])))
    {'kl': 0.5, 'entropy': 2.0}
    """

    def __init__(self, names: Sequence[str], values: torch.Tensor) -> None:
        self._names, self._values = tuple(names), values
        self._read: dict[str, float] | None = None

    def _numbers(self) -> dict[str, float]:
        if self._read is None:
            self._read = dict(zip(self._names, self._values.tolist(), strict=True))
        return self._read

    def __getitem__(self, name: str) -> float:
        return self._numbers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class DeviceTimes:
    """How long rollouts and updates take on the device, for the run's shares of time.

    An iteration has three marks: before its rollout, before its update, and after it; or a fourth one, if the rollout
    ends after the update.
    """

    def __init__(self, device: torch.device, stopwatch: Stopwatch) -> None:
        self._has_events, self._stopwatch = device.type == "cuda", stopwatch

    def mark(self) -> Any:
        """Now, on the device's clock if it has one."""
        if not self._has_events:
            self._stopwatch.lap("policy")
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def add(self, marks: Sequence[Any]) -> None:
        """Wait for the last mark of an iteration, and count its times."""
        if not self._has_events:
            return
        marks[-1].synchronize()
        for part, first, second in zip(("policy", "learner", "policy"), marks, marks[1:], strict=False):
            self._stopwatch.add(part, first.elapsed_time(second) / 1000)
        self._stopwatch.start()


# Options that captured work reads from tensors; when another one changes, the work is captured again.
NOT_CAPTURED = {"learning_rate", "learning_rate_schedule", "clip", "clip_schedule", "threads"}
AHEAD = 2  # iterations that the host may be ahead of the GPU: enough to keep it busy


class DeviceCollector(Collector):
    """For an on-policy learner and envs that return tensors on its device."""

    is_asynchronous = True
    is_fused = True
    masks = None  # the envs' own state has them
    learner: Any
    envs: Any  # a `CudaEngine`, or what has its methods

    def use(self, envs: Any) -> None:
        self.envs, self._execution = envs, use_tensor_envs(self.learner)
        self._episodes = LatestEpisodes(envs)
        self._times = DeviceTimes(self.learner.device, self.stopwatch)
        self._in_flight: deque[Any] = deque()
        self._calls: dict[Any, CapturedCall] = {}
        self._prepare()

    def _prepare(self) -> None:
        learner, execution = self.learner, self._execution
        self._latest_metrics = torch.zeros(len(learner.metric_names), device=learner.device)
        self._clip: Any = 0.0
        self._options, self._captured_options = learner.options, self._constants()
        self._calls["rollout"] = self._captured(
            self._make_rollout, lambda: [execution.memory], "a rollout", plain=not self._can_be_captured
        )
        self._calls["update"] = CapturedCall(
            self._make_update,
            learner.device,
            state=execution.stays,
            generators=[learner.generator],
            name="an update",
            plain=execution.shares,  # it waits for other processes
        )

    @property
    def _can_be_captured(self) -> bool:
        return getattr(self.envs, "can_be_captured", False)

    def _captured(
        self, work: Callable[[], None], stays: Callable[[], list[Any]], name: str, plain: bool = False
    ) -> CapturedCall:
        """Work that steps the envs too; `stays` is what it changes of the learner."""
        return CapturedCall(
            work,
            self.learner.device,
            state=lambda: [*self.envs.device_state(), *stays()],
            generators=[self.learner.generator, *getattr(self.envs, "generators", ())],  # of opponents
            name=name,
            plain=plain,
        )

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        self.learner.progress = self._share_done(self.steps)
        self._episodes.begin()

    # --- collecting ---------------------------------------------------------------------------------------------

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """A complete rollout, whatever `rounds` is: a rollout is one piece of work."""
        self._keep_close()
        self._follow_options()
        self._marks = [self._times.mark()]
        self._call_envs("before_rollout")
        self._execution.noise.place(self.learner.rollout.length, self.learner.generator)
        self._calls["rollout"]()
        self._call_envs("after_rollout", self.learner.rollout.length)
        self._marks.append(self._times.mark())
        self._count(self.learner.rollout.length * self.envs.num_envs)

    def _keep_close(self, ahead: int = AHEAD) -> None:
        """Wait until the host is less than so many iterations ahead."""
        while len(self._in_flight) >= ahead:
            self._times.add(self._in_flight.popleft())

    def _follow_options(self) -> None:
        """Phases and callbacks change options, which captured work holds as constants."""
        if self.learner.options is self._options:
            return
        self._options = self.learner.options
        if self._constants() != self._captured_options:
            self._captured_options = self._constants()
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

    # --- updating -----------------------------------------------------------------------------------------------

    def update(self) -> None:
        learner = self.learner
        self.set_progress()
        self._clip = self._execution.follow_schedules()
        self._calls["update"]()
        learner.rollout.forget()
        learner.updates += 1
        self.metrics = DeviceMetrics(learner.metric_names, self._latest_metrics)
        self._marks.append(self._times.mark())
        self._in_flight.append(self._marks)

    def _make_update(self) -> None:
        self._latest_metrics.copy_(self._execution.learn(self._clip))

    def set_progress(self) -> None:
        rollout = self.learner.rollout.length * self.envs.num_envs * self.learner.processes
        self.learner.progress = self._share_done(self.steps - rollout)

    # --- what the run sees --------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Until everything is done that was begun; raises what an env has found wrong."""
        self._keep_close(1)
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
        """Capture again what comes: an option of the learner, or an address, has changed."""
        for call in self._calls.values():
            call.release()


class RoundCollector(DeviceCollector):
    """For an off-policy learner. After each round come the updates that are due, by counts which the host knows, so
    that nothing is read back.

    A simulation's step is a CUDA graph of many short kernels, which leave most of the GPU idle. So it runs beside the
    updates of the round before, on a stream of its own."""

    def _prepare(self) -> None:
        """Rounds are captured as their kinds come."""
        self._is_simulated = not self._can_be_captured and self.envs.backend == "cuda"
        on_gpu = self.learner.device.type == "cuda"
        self._beside = torch.cuda.Stream(self.learner.device) if self._is_simulated and on_gpu else None

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
        self._keep_close()
        marks = [self._times.mark()]
        self._execution.make_room(self.envs.num_envs)
        self._execution.before_round()
        if self._is_simulated:
            self._simulated_round(marks)
        else:
            self._captured_round()()
        self._execution.after_round()
        self._count(self.envs.num_envs)
        marks.append(self._times.mark())
        if not self._is_simulated:
            self.update()
            marks.append(self._times.mark())
        self._in_flight.append(marks)

    def _simulated_round(self, marks: list[Any]) -> None:
        """With the updates of the round before, which take until the simulation has made its step, or longer."""
        beside, actions = self._beside, self._choose_actions()
        if beside is not None:
            beside.wait_stream(torch.cuda.current_stream(beside.device))
        with torch.cuda.stream(beside):
            results = self.envs.step_for_learner(actions)
        marks.append(self._times.mark())
        self.update()
        marks.append(self._times.mark())
        if beside is not None:
            torch.cuda.current_stream(beside.device).wait_stream(beside)
        self._write_round(*results)

    def _captured_round(self) -> Callable[[], None]:
        """The next round, captured if it is of a kind that comes often."""
        execution, kind = self._execution, self._execution.round_kind
        if not self._can_be_captured or not execution.n_step_buffer.completes:
            return self._make_round
        if kind not in self._calls:
            self.release()  # a kind that is over does not come back
            self._calls = {kind: self._captured(self._make_round, execution.round_stays, "a round")}
        return self._calls[kind]

    def _make_round(self) -> None:
        self._write_round(*self.envs.step_for_learner(self._choose_actions()))

    def _choose_actions(self) -> Any:
        observations, mask = self.envs.present()
        return self.learner.explore(observations, slice(0, self.envs.num_envs), mask)

    def _write_round(self, observations: Any, rewards: Any, terminated: Any, truncated: Any, last: Any) -> None:
        finals, mask = TensorFinals(terminated | truncated, last), self.envs.present()[1]
        self._execution.write(StepBatch(observations, rewards, terminated, truncated, finals, mask))

    def update(self) -> None:
        """Make all updates that are due."""
        if self.learner.ready():
            self.set_progress()
            self.metrics = self.learner.update()

    def set_progress(self) -> None:
        self.learner.progress = self._share_done(self.steps)

    def release(self) -> None:
        super().release()
        self._calls.clear()
