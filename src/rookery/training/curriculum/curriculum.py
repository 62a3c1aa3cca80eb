"""What phases and opponents add to a run's loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.errors import RunError
from rookery.learners.learner import Learner, Tree
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.resolve.curriculum_config import counts_episodes
from rookery.training.schedule import Every


class NoCurriculum:
    """A run without phases: nothing is added, and its steps alone decide how long it is."""

    episodes: int | None = None  # of the run, if its length is in episodes

    @property
    def finished(self) -> bool:
        """Whether the last phase is over."""
        return False

    @property
    def phase_over(self) -> bool:
        """Whether the present phase is over."""
        return False

    @property
    def steps_left(self) -> float:
        """Until something is due by steps."""
        return math.inf

    @property
    def pending_episodes(self) -> int:
        """How many are counted and not yet collected."""
        return 0

    @property
    def notes(self) -> list[str]:
        """What to tell when the run begins."""
        return []

    def share(self, by_steps: float) -> float:
        """How much of the run is over."""
        return by_steps

    def counted(self, finished: np.ndarray) -> np.ndarray:
        """Those of the episodes that ended which belong to the phase."""
        return finished

    def figures(self) -> dict[str, Any]:
        """What a monitor shows."""
        return {}

    def keep_opponents(self, before: int, steps: int, saved: bool, agent: Callable[[], Tree]) -> None:
        """Copies of the agent become opponents."""

    def adjust(self, learner: Learner) -> None:
        """Give the learner the options of the phase."""

    def state(self) -> Tree:
        return {}

    def load(self, state: Tree) -> None:
        """Go on from `state()`."""


class Curriculum(NoCurriculum):
    """Leads a run through the phases of its course."""

    def __init__(self, config: RunConfig, course: CurriculumVectorEnv) -> None:
        self._config, self.course, self.phases = config, course, course.phases
        self._entries = None if course.opponents is None else Every(course.opponents.league.every, None)
        if counts_episodes(self.phases.all):
            self.episodes = sum(phase.episodes or 0 for phase in self.phases.all)

    @property
    def finished(self) -> bool:
        return self.phases.last and self.phases.over

    @property
    def phase_over(self) -> bool:
        return self.phases.over

    @property
    def steps_left(self) -> float:
        entry = math.inf if self._entries is None else self._entries.steps_left(self.course.steps)
        return min(self.phases.steps_left, entry)

    @property
    def pending_episodes(self) -> int:
        return self.phases.uncollected

    @property
    def notes(self) -> list[str]:
        secretive = self.course.opponents.secretive if self.course.opponents is not None else []
        return [f"{who} keeps its memory to itself, so a resumed run will not be the same" for who in secretive]

    def share(self, by_steps: float) -> float:
        return max(by_steps, self.phases.share) if self.phases.all[-1].ends else by_steps

    def counted(self, finished: np.ndarray) -> np.ndarray:
        return finished[: self.phases.collect()]

    def figures(self) -> dict[str, Any]:
        return {"phase": self.phases.index + 1}

    def advance(self, learner: Learner) -> tuple[Any, dict[str, Any]]:
        """Begin the next phase, in all envs at once; returns the observations to go on from."""
        begun = self.course.advance()
        learner.reset_envs(slice(0, self.course.num_envs))
        if self.phases.now.clear_replay:
            learner.clear_replay()
        self.adjust(learner)
        return begun

    def adjust(self, learner: Learner) -> None:
        own = getattr(self._config, self._config.learner).model_dump()
        learner.adjust({**own, **self.phases.now.learner})

    def announcement(self, episodes: int) -> dict[str, Any] | None:
        """What to tell of the phase that begins, if there are several."""
        if len(self.phases.all) == 1:
            return None
        number = self.phases.index + 1
        text = f"{self.phases.title} ({number} of {len(self.phases.all)}) begins after {episodes:,} episodes"
        return {"text": text, "phase": number, "episodes": episodes}

    def keep_opponents(self, before: int, steps: int, saved: bool, agent: Callable[[], Tree]) -> None:
        opponents = self.course.opponents
        if opponents is None:
            return
        if saved:
            opponents.saved(steps)
        if opponents.league.due(before, steps):
            try:
                opponents.league.enter(steps, agent())
            except OSError as error:
                raise RunError(f"the agent could not enter the league: {error}") from error

    def state(self) -> Tree:
        return self.course.course_state()

    def load(self, state: Tree) -> None:
        self.course.load_course(state)
