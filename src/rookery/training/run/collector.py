"""Stepping envs for a learner: all at once, or in two groups, of which one steps while the policy acts for the other.

The overlap is scheduled by counts alone, so that the same seed gives the same numbers whatever the timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.seeding import ChildSeeds
from rookery.engine.segments import Group
from rookery.learners.action_spaces import mask_of
from rookery.learners.learner import Finals, Learner, StepBatch
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.evaluation.win_record import outcomes_of
from rookery.training.run.timing import Stopwatch

if TYPE_CHECKING:
    from rookery.training.run.device_link import DeviceLink

IN_PROCESS = ("serial", "kernel")  # backends that step on the caller's own thread


class Collector:
    """Sends a learner's actions to the envs, and records what they return."""

    is_asynchronous = False  # whether the envs step while the host continues: then it looks at them only now and then
    uncounted_episodes = 0  # that ended but were not listed, since it was last set to 0
    restarts_elsewhere = 0  # of envs of the run's other processes

    def __init__(
        self,
        envs: Engine | CurriculumVectorEnv,
        learner: Learner,
        stopwatch: Stopwatch,
        share_done: Callable[[int], float],
    ) -> None:
        """`share_done` is the share of the run that is done after so many steps: schedules follow it."""
        self.learner, self.stopwatch = learner, stopwatch
        self.steps, self._share_done = 0, share_done
        self.ended = 0  # episodes that ended since it was last set to 0; compiled rollouts do not count them
        self.metrics: Mapping[str, float] = {}  # of the latest update
        self.on_outcomes: Callable[[dict[str, list[float]]], None] = lambda outcomes: None  # of episodes that ended
        self.on_final_infos: Callable[[slice, dict[str, Any]], None] = lambda rows, infos: None  # of the same
        self.on_final_numbers: Callable[[dict[str, Any], dict[str, Any]], None] = lambda infos, metadata: None
        self.on_hints: Callable[[int, slice, dict[str, Any]], None] = lambda step, rows, infos: None  # of guides
        self.on_window: Callable[[np.ndarray, np.ndarray], None] = lambda returns, lengths: None  # of latest episodes
        self._parts: list[CollectorPart] = []
        self._link: DeviceLink | None = None
        self.use(envs)

    def use(self, envs: Engine | CurriculumVectorEnv) -> None:
        """Step these envs; `begin` follows."""
        self.envs = envs
        # Where envs are stepped on this very thread, a plain step costs less than its halves.
        self._steps_here = envs.backend in IN_PROCESS
        self._stepping = "env" if envs.backend in IN_PROCESS else "waiting"
        self._fused = roller_for(envs, self.learner)
        self.close()
        self._link = link_for(envs, self.learner)

    def close(self) -> None:
        """Release what connects envs and the learner's device."""
        if self._link is not None:
            self._link.close()
            self._link = None

    @property
    def is_fused(self) -> bool:
        """Whether compiled code makes the steps."""
        return self._fused is not None

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        """Step from these observations of all envs."""
        self.learner.progress = self._share_done(self.steps)
        groups = self.envs.groups if len(self.envs.groups) > 1 else None
        mask = self._mask_of(observations, infos)
        self._parts = [
            CollectorPart(rows, sender, _rows(observations, rows), None if mask is None else mask[rows])
            for rows, sender in (
                [(slice(0, self.envs.num_envs), self.envs)] if groups is None else [(g.rows, g) for g in groups]
            )
        ]
        if self._link is not None:
            for part in self._parts:
                self._link.begin(part.rows, part.observations, part.mask)

    def finished_episodes(self) -> np.ndarray:
        """Episodes that ended since the last call, as an engine lists them."""
        return self.envs.finished_episodes()

    def figures(self) -> dict[str, float]:
        """What a cluster that steps the envs has to say, for events."""
        return {}

    def resize(self, num_envs: int, seed: int) -> None:
        """Change the number of envs. Those that stay continue; new ones begin their first episodes."""
        assert isinstance(self.envs, Engine)  # the number of envs of a curriculum is fixed
        kept = self.envs.num_envs
        self.envs.resize(num_envs)
        self.use(self.envs)  # its arrays are elsewhere now
        (part,) = self._parts
        rows = slice(0, min(num_envs, kept))
        observations = _rows(part.observations, rows)
        infos = {} if part.mask is None else {"action_mask": part.mask[rows]}
        if num_envs > kept:
            fresh = np.arange(num_envs) >= kept
            seeds = ChildSeeds.of(seed, self.envs)
            observations, infos = self.envs.reset(seed=seeds, options={"reset_mask": fresh})
        mask = self._mask_of(observations, infos)
        if mask is not None and part.mask is not None:
            mask[rows] = part.mask[rows]  # the reset has returned no masks of those that stay
        self.begin(observations, infos if mask is None else {**infos, "action_mask": mask})

    @property
    def masks(self) -> np.ndarray | None:
        """The action masks of the next step, if masks are in use: they are not part of the envs' own state."""
        masks = [part.mask for part in self._parts if part.mask is not None]
        return np.concatenate(masks) if masks else None

    def collect(self, rounds: int, stop: Callable[[], bool]) -> None:
        """Step every env so many times, or fewer if `stop()` is true. Off-policy learners learn while the envs step."""
        self.stopwatch.start()
        rounds -= self._collect_fused(rounds)
        for turn in range(rounds):
            for part in self._parts:
                if turn:
                    self._receive(part)
                self._send(part)
            if not self.learner.on_policy:
                self.update()
            if stop():
                break
        for part in self._parts if rounds else ():
            self._receive(part)
        if self._link is not None:
            self._link.flush()

    def _collect_fused(self, rounds: int) -> int:
        """As many steps as can be made without leaving compiled code; returns how many that were."""
        if self._fused is None:
            return 0
        done = 0
        while done < rounds:
            made, outcome = self._fused.roll(rounds - done)
            done += made
            self._count(made * self.envs.num_envs)
            if outcome < 0:
                break
            self._record(self._parts[0], self._fused.envs.finish_step(outcome))
            done += 1
        self.stopwatch.lap("policy")
        return done

    def update(self) -> None:
        """Make all updates that are due."""
        if self.learner.ready():
            self.stopwatch.start()
            self.set_progress()
            while self.learner.ready():
                self.metrics = self.learner.update()
            self.stopwatch.lap("learner")

    def set_progress(self) -> None:
        """Before an update: schedules are those of where the data began, so that the last learning rate is not 0."""
        self.learner.progress = self._share_done(self.steps - self.learner.steps_since_update * self.learner.processes)

    def _send(self, part: CollectorPart) -> None:
        if self._link is None:
            part.actions = self.learner.explore(part.observations, part.rows, part.mask)
        else:
            self._link.explore(part.rows)
        self.stopwatch.lap("policy")
        if not self._steps_here:
            self._take_actions(part)
            part.sender.send(part.actions)
            self.stopwatch.lap(self._stepping)

    def _receive(self, part: CollectorPart) -> None:
        if self._steps_here:  # only now: a GPU chooses actions for one group while the other one steps here
            self._take_actions(part)
            step = part.sender.step(part.actions)
        else:
            step = part.sender.recv()
        self.stopwatch.lap(self._stepping)
        self._record(part, step)
        self.stopwatch.lap("policy")

    def _take_actions(self, part: CollectorPart) -> None:
        """Wait for the actions that the learner's device chooses."""
        if self._link is not None:
            part.actions = self._link.actions(part.rows)
            self.stopwatch.lap("gpu")

    def _record(self, part: CollectorPart, step: tuple[Any, ...]) -> None:
        observations, rewards, terminated, truncated, infos = step
        part.observations, part.mask = observations, self._mask_of(observations, infos)
        if "final_obs" in infos:
            self.ended += int(np.count_nonzero(infos.get("_final_info", infos["_final_obs"])))
        self._tell(part.rows, infos, self.steps + len(rewards))
        batch = StepBatch(observations, rewards, terminated, truncated, finals(infos), part.mask)
        (self.learner if self._link is None else self._link).record(part.rows, batch)
        self._count(len(rewards))

    def _tell(self, rows: slice, infos: dict[str, Any], steps: int) -> None:
        """Pass on what the infos of a step of these envs say, after which the run has made so many steps."""
        if "final_info" in infos:
            self.on_outcomes(outcomes_of(infos, self.envs.metadata))
            self.on_final_numbers(infos, self.envs.metadata)
            self.on_final_infos(rows, infos)
        if "hints" in infos:
            self.on_hints(steps, rows, infos)

    def _mask_of(self, observations: Any, infos: dict[str, Any]) -> np.ndarray | None:
        return mask_of(observations, infos, self.learner.agent.action_space)

    def _count(self, steps: int) -> None:
        self.steps += steps * self.learner.processes
        self.learner.progress = self._share_done(self.steps)


class CollectorPart:
    """Envs that are stepped together, with their latest observations and action masks."""

    def __init__(
        self, rows: slice, sender: Engine | CurriculumVectorEnv | Group, observations: Any, mask: np.ndarray | None
    ) -> None:
        self.rows, self.sender, self.observations, self.mask = rows, sender, observations, mask
        self.actions: Any = None


def finals(infos: dict[str, Any]) -> Finals | None:
    """The envs whose episode ended in this step, and their final observations."""
    if "final_obs" not in infos:
        return None
    places = np.flatnonzero(infos["_final_obs"])
    return (places, [infos["final_obs"][k] for k in places]) if len(places) else None


def link_for(envs: Any, learner: Learner) -> DeviceLink | None:
    """What connects these envs and a learner on a GPU. Its module imports Numba, which a run on the CPU or with envs on
    the GPU does not need for it."""
    if learner.device.type == "cpu" or getattr(learner, "execution", None) is None:
        return None
    from rookery.training.run import device_link

    return device_link.link_for(envs, learner)


def roller_for(envs: Any, learner: Learner) -> Any:
    """The compiled loop for this engine and learner, or None. Its module imports Numba, which only a kernel engine has
    imported already."""
    if envs.backend != "kernel":
        return None
    from rookery.training.run.fused_collector import roller_for

    return roller_for(envs, learner)


def _rows(observations: Any, rows: slice) -> Any:
    if isinstance(observations, dict):
        return {key: _rows(part, rows) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_rows(part, rows) for part in observations)
    return observations[rows]
