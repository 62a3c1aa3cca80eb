"""The league of a run: the archive, the learner's rating, and what comes of their games."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.config.curriculum_schema import LeagueOptions
from rookery.errors import RunError
from rookery.training.league.archive import Archive, Member
from rookery.training.league.matchmaking import SELF, Drawn, draw
from rookery.training.league.ratings import Rating, model, update
from rookery.training.league.standing import Standing, rating_from, rating_state
from rookery.training.storage.state_tree import Tree

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

ENTRIES = 20  # in a run, unless their distance is given
LATEST, ENOUGH = 100, 20  # games against the archive that tell whether the learner beats it, and the fewest that do
UNRATED = ("", SELF, "latest")  # nobody, and those who are as good as the learner is


class League:
    """What a training loop holds.

    After some steps, `if league.due(before, steps): league.enter(steps, agent)`; for each new episode
    `league.draw(u1, u2)`; at its end `league.note(name, outcome)`. `state()` goes into checkpoints.
    """

    def __init__(self, folder: Path, settings: LeagueOptions, total_steps: int, scripts: Sequence[str] = ()) -> None:
        """`folder` is for the members; `scripts` are the opponents that the world has itself, which are the baselines
        unless the settings name others."""
        model()  # to hear now, not at the end of the first game, if openskill is missing
        self.settings = settings
        self.archive = Archive(folder, settings.size)
        self.every = settings.every or max(1, total_steps // ENTRIES)
        self.baselines = tuple(settings.baselines or scripts)
        self.learner = Rating()
        self.met: dict[str, Standing] = {}  # opponents that are not in the archive
        self._latest: deque[int] = deque(maxlen=LATEST)  # outcomes against the archive since the last entry

    def due(self, before: int, steps: int) -> bool:
        """Whether the learner should enter the archive, having gone on from `before` to `steps`."""
        if steps // self.every == before // self.every:
            return False
        return self.settings.enter == "schedule" or not self.archive.active or self.beats_archive

    def steps_until_due(self, steps: int) -> int:
        """How many steps until the learner may enter the archive again."""
        return self.every - steps % self.every

    @property
    def beats_archive(self) -> bool:
        """Whether the learner has won enough of its latest games against the archive; a draw is half a win."""
        if len(self._latest) < ENOUGH:
            return False
        score = sum(0.5 * (1 + outcome) for outcome in self._latest) / len(self._latest)
        return score >= self.settings.win_rate

    def enter(self, step: int, agent: Tree) -> Member:
        """Take the learner in as it is now: `agent` is what a checkpoint's part "agent" holds. Disk trouble raises
        OSError and changes nothing."""
        member = self.archive.enter(step, agent, self.learner)
        self._latest.clear()
        return member

    def draw(self, kind: float, which: float) -> Drawn:
        """The next opponent, from two uniform numbers in [0, 1)."""
        return draw(self.archive.active, self.baselines, self.settings, kind, which)

    def note(self, name: str, outcome: int) -> None:
        """The learner won (1), drew (0) or lost (-1) a game against a member, who may have retired since, or against
        someone else of this name. Games against nobody, or against itself, tell nothing."""
        if name in UNRATED:
            return
        member = self.archive.find(name)
        if member is not None:
            self._latest.append(outcome)
        standing = member.standing if member else self.met.setdefault(name, Standing())
        self.learner, standing.rating = update(self.learner.drifted(), standing.rating, outcome)
        standing.note(outcome)

    def load_policy(self, name: str) -> Agent:
        """The agent that the member of this name is."""
        member = self.archive.find(name)
        if member is None:
            raise RunError(f"there is no {name!r} in the league's archive")
        return self.archive.load_policy(member)

    # --- going on later -------------------------------------------------------------------------------------------

    def state(self) -> Tree:
        """Everything but the agents themselves, as plain values: the part "league" of a checkpoint."""
        return {
            "learner": rating_state(self.learner),
            "latest": list(self._latest),
            "met": {name: standing.state() for name, standing in self.met.items()},
            "members": self.archive.state(),
        }

    def load(self, state: Tree) -> None:
        """Go on from `state()`, with the archive as it was then."""
        self.archive.load(state["members"])
        self.learner = rating_from(state["learner"])
        self.met = {name: Standing.from_state(saved) for name, saved in state["met"].items()}
        self._latest = deque(state["latest"], maxlen=LATEST)
