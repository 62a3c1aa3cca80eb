"""Stepping envs for a learner: all at once, or in two groups of which one is stepped while the other is thought about.

What runs beside what is scheduled by counts alone, so that the same seed gives the same numbers whatever the timing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.groups import Group
from rookery.learners.learner import Finals, Learner, StepBatch
from rookery.learners.observations import mask_of
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.evaluation.winners import outcomes_of
from rookery.training.run.fused_collector import roller_for
from rookery.training.run.stopwatch import Stopwatch

IN_PROCESS = ("serial", "kernel")  # backends that step on the caller's own thread


class Collector:
    """Feeds a learner: its actions to the envs, their answers back."""

    def __init__(
        self, envs: Engine | CurriculumVectorEnv, learner: Learner, watch: Stopwatch, share: Callable[[int], float]
    ) -> None:
        """`share` tells how much of the run is over after so many steps: schedules follow it."""
        self.envs, self.learner, self.watch = envs, learner, watch
        self.steps, self._share = 0, share
        self.figures: dict[str, float] = {}  # of the latest update
        self.outcomes: Callable[[dict[str, list[float]]], None] = lambda told: None  # hears how episodes went
        # Where envs are stepped on this very thread nothing can overlap, and a plain step costs less than its halves.
        self._at_once = envs.backend in IN_PROCESS and len(envs.groups) == 1
        self._stepping = "env" if envs.backend in IN_PROCESS else "waiting"
        self._parts: list[CollectorPart] = []
        self._roller = roller_for(envs, learner)

    def begin(self, observations: Any, infos: dict[str, Any]) -> None:
        """Go on from these observations of all envs."""
        self.learner.progress = self._share(self.steps)
        groups = self.envs.groups if len(self.envs.groups) > 1 else None
        self._parts = [
            CollectorPart(rows, sender, _rows(observations, rows), _mask_rows(mask_of(observations, infos), rows))
            for rows, sender in (
                [(slice(0, self.envs.num_envs), self.envs)] if groups is None else [(g.rows, g) for g in groups]
            )
        ]

    def resize(self, num_envs: int, seed: int) -> None:
        """Change the number of envs. Those that stay go on; new ones begin their first episodes."""
        assert isinstance(self.envs, Engine)  # a course keeps its envs
        kept = self.envs.num_envs
        self.envs.resize(num_envs)
        (part,) = self._parts
        rows = slice(0, min(num_envs, kept))
        observations = _rows(part.observations, rows)
        infos = {} if part.mask is None else {"action_mask": part.mask[rows]}
        if num_envs > kept:
            fresh = np.arange(num_envs) >= kept
            observations, infos = self.envs.reset(seed=seed, options={"reset_mask": fresh})
        mask = mask_of(observations, infos)
        if mask is not None and part.mask is not None:
            mask[rows] = part.mask[rows]  # those that stay have not spoken
        self.begin(observations, infos if mask is None else {**infos, "action_mask": mask})

    @property
    def masks(self) -> np.ndarray | None:
        """What may be done next, if masks are in use: all else is in the envs' own state."""
        masks = [part.mask for part in self._parts if part.mask is not None]
        return np.concatenate(masks) if masks else None

    def gather(self, rounds: int, stop: Callable[[], bool]) -> None:
        """Step every env so many times, or fewer if asked to stop. Off-policy learners learn while the envs step."""
        self.watch.start()
        rounds -= self._roll(rounds)
        for turn in range(rounds):
            for part in self._parts:
                if turn:
                    self._land(part)
                self._launch(part)
            if not self.learner.on_policy:
                self.learn()
            if stop():
                break
        for part in self._parts if rounds else ():
            self._land(part)

    def _roll(self, rounds: int) -> int:
        """As many steps as can be made without leaving compiled code; returns how many that were."""
        if self._roller is None:
            return 0
        done = 0
        while done < rounds:
            made, outcome = self._roller.roll(rounds - done)
            done += made
            self._count(made * self.envs.num_envs)
            if outcome < 0:
                break
            self._record(self._parts[0], self._roller.envs.finish_step(outcome))
            done += 1
        self.watch.lap("policy")
        return done

    def learn(self) -> None:
        """Make all updates that are due."""
        if self.learner.ready():
            self.watch.start()
            # Schedules stand where the data began, so that the last update still learns something.
            self.learner.progress = self._share(self.steps - self.learner.steps_since_update)
            while self.learner.ready():
                self.figures = self.learner.update()
            self.watch.lap("learner")

    def _launch(self, part: CollectorPart) -> None:
        part.actions = self.learner.explore(part.observations, part.rows, part.mask)
        self.watch.lap("policy")
        if not self._at_once:
            part.sender.send(part.actions)
            self.watch.lap(self._stepping)

    def _land(self, part: CollectorPart) -> None:
        answer = part.sender.step(part.actions) if self._at_once else part.sender.recv()
        self.watch.lap(self._stepping)
        self._record(part, answer)
        self.watch.lap("policy")

    def _record(self, part: CollectorPart, answer: tuple[Any, ...]) -> None:
        observations, rewards, terminated, truncated, infos = answer
        part.observations, part.mask = observations, mask_of(observations, infos)
        if "final_info" in infos:
            self.outcomes(outcomes_of(infos, self.envs.metadata))
        self.learner.record(
            part.rows, StepBatch(observations, rewards, terminated, truncated, finals(infos), part.mask)
        )
        self._count(len(rewards))

    def _count(self, steps: int) -> None:
        self.steps += steps
        self.learner.progress = self._share(self.steps)


class CollectorPart:
    """Envs that are stepped together, and what they showed last."""

    def __init__(
        self, rows: slice, sender: Engine | CurriculumVectorEnv | Group, observations: Any, mask: np.ndarray | None
    ) -> None:
        self.rows, self.sender, self.observations, self.mask = rows, sender, observations, mask
        self.actions: Any = None


def finals(infos: dict[str, Any]) -> Finals | None:
    """Which envs ended their episode in this step, and what they showed last."""
    if "final_obs" not in infos:
        return None
    places = np.flatnonzero(infos["_final_obs"])
    return (places, [infos["final_obs"][k] for k in places]) if len(places) else None


def _rows(observations: Any, rows: slice) -> Any:
    if isinstance(observations, dict):
        return {key: _rows(part, rows) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_rows(part, rows) for part in observations)
    return observations[rows]


def _mask_rows(mask: np.ndarray | None, rows: slice) -> np.ndarray | None:
    return None if mask is None else mask[rows]
