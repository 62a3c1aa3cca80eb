"""What phases and opponents add to a training loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.errors import RunError
from rookery.learners.learner import Learner, Tree
from rookery.training.curriculum.phases import Phases
from rookery.training.curriculum.vector_env import CurriculumVectorEnv
from rookery.training.resolve.curriculum_config import counts_episodes


class NoCurriculum:
    """A run without phases: nothing is added, and its steps alone decide how long it is."""

    episodes: int | None = None  # of the run, if its length is in episodes

    @property
    def finished(self) -> bool:
        """Whether the last phase is over."""
        return False

    @property
    def phase_over(self) -> bool:
        """Whether the current phase is over."""
        return False

    @property
    def steps_left(self) -> float:
        """Until something is due by steps."""
        return math.inf

    @property
    def pending_episodes(self) -> int:
        """Episodes that have ended and that `counted` has not returned yet."""
        return 0

    @property
    def notes(self) -> list[str]:
        """What the user should know when the run begins."""
        return []

    def share_done(self, by_steps: float) -> float:
        """The share of the run that is done."""
        return by_steps

    def counted(self, finished: np.ndarray) -> np.ndarray:
        """Those of the finished episodes that belong to the phase."""
        return finished

    def counted_others(self, others: int) -> int:
        """How many of the episodes that were not listed belong to the phase, after a call of `counted`."""
        return others

    def metrics(self) -> dict[str, Any]:
        """What progress events hold of it."""
        return {}

    def keep_opponents(self, before: int, steps: int, saved: bool, agent: Callable[[], Tree]) -> None:
        """Keep copies of the agent as opponents, where they are due between `before` and `steps`."""

    def apply_options(self, learner: Learner) -> None:
        """Give the learner the options of the phase."""

    def state(self) -> Tree:
        return {}

    def load(self, state: Tree) -> None:
        """Continue from `state()`."""


class Curriculum(NoCurriculum):
    """Takes a run through the phases of its envs."""

    def __init__(self, config: RunConfig, envs: CurriculumVectorEnv) -> None:
        self._config, self.envs = config, envs
        self._ends = self.phases.all[-1].ends  # asking the phases of envs on a GPU would wait for them
        self._others = 0  # episodes of the phase that were not listed when they were last counted
        if counts_episodes(self.phases.all):
            self.episodes = sum(phase.episodes or 0 for phase in self.phases.all)

    @property
    def phases(self) -> Phases:
        """The phases of the envs."""
        return self.envs.phases

    @property
    def finished(self) -> bool:
        return self.phases.last and self.phases.over

    @property
    def phase_over(self) -> bool:
        return self.phases.over

    @property
    def steps_left(self) -> float:
        opponents, of_phase = self.envs.opponents, self.phases.steps_left
        entry = math.inf if opponents is None else opponents.league.steps_until_due(self.envs.steps)
        return min(of_phase, entry)

    @property
    def pending_episodes(self) -> int:
        return self.phases.uncollected

    @property
    def notes(self) -> list[str]:
        names = self.envs.opponents.without_saved_memory if self.envs.opponents is not None else []
        return [f"the memory of {who} cannot be saved, so a resumed run will not be the same" for who in names]

    def share_done(self, by_steps: float) -> float:
        return max(by_steps, self.phases.share_done) if self._ends else by_steps

    def counted(self, finished: np.ndarray) -> np.ndarray:
        belonging = self.phases.collect()
        self._others = max(0, belonging - len(finished))
        return finished[:belonging]

    def counted_others(self, others: int) -> int:
        return min(others, self._others)

    def metrics(self) -> dict[str, Any]:
        return {"phase": self.phases.index + 1}

    def begin_next_phase(self, learner: Learner) -> tuple[Any, dict[str, Any]]:
        """Begin the next phase in all envs at once; returns their observations and infos."""
        begun = self.envs.begin_next_phase()
        learner.reset_envs(slice(0, self.envs.num_envs))
        if self.phases.current.clear_replay:
            learner.clear_replay()
        self.apply_options(learner)
        return begun

    def apply_options(self, learner: Learner) -> None:
        own = getattr(self._config, self._config.learner).model_dump()
        learner.adjust({**own, **self.phases.current.learner})

    def announcement(self, episodes: int) -> dict[str, Any] | None:
        """The note about the phase that begins, if there are several."""
        if len(self.phases.all) == 1:
            return None
        number = self.phases.index + 1
        text = f"{self.phases.title} ({number} of {len(self.phases.all)}) begins after {episodes:,} episodes"
        return {"text": text, "phase": number, "episodes": episodes}

    def keep_opponents(self, before: int, steps: int, saved: bool, agent: Callable[[], Tree]) -> None:
        opponents = self.envs.opponents
        if opponents is None:
            return
        if saved:
            opponents.checkpoint_saved(steps)
        entered = opponents.league.due(before, steps)
        try:
            if entered:
                opponents.league.enter(steps, agent())
        except OSError as error:
            raise RunError(f"the agent could not enter the league: {error}") from error
        try:
            opponents.league.log_ratings(before, steps, now=entered)
        except OSError as error:
            raise RunError(f"the ratings of the league could not be written: {error}") from error

    def state(self) -> Tree:
        return self.envs.curriculum_state()

    def load(self, state: Tree) -> None:
        self.envs.load_curriculum_state(state)
