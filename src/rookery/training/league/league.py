"""The league of a run: the archive of past agents, the learner's rating, and the results of its games."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.config.sections import LeagueOptions
from rookery.errors import RunError
from rookery.training.league.archive import Archive, PastAgent
from rookery.training.league.league_rows import league_rows
from rookery.training.league.matchmaking import SELF, OpponentChoice, choose_opponent
from rookery.training.league.opponent_record import OpponentRecord, rating_from, rating_state
from rookery.training.league.rating_log import RatingLog
from rookery.training.league.ratings import Rating, model, update
from rookery.training.storage.state_tree import Tree

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

DEFAULT_ENTRIES = 20  # in a run, if `every` is omitted
WINDOW, MIN_GAMES = 100, 20  # latest games against the archive that decide whether the learner beats it
MOST_RATED = 16  # games of one opponent in one call of `add_games`
UNRATED = ("", SELF, "latest")  # no opponent, and those that are the learner itself


class League:
    """The league in a training loop.

    After some steps, `if league.due(before, steps): league.enter(steps, agent)`; for each new episode
    `league.choose_opponent(u1, u2)`; at its end `league.add_game(name, outcome)`. `state()` goes into checkpoints.
    """

    def __init__(self, folder: Path, settings: LeagueOptions, total_steps: int, scripts: Sequence[str] = ()) -> None:
        """`folder` is for the members; `scripts` are the world's scripted opponents, which are the baselines unless the
        settings name others."""
        model()  # if openskill is missing, this raises now, not at the end of the first game
        self.settings = settings
        self.archive = Archive(folder, settings.size)
        self.every = settings.every or max(1, total_steps // DEFAULT_ENTRIES)
        self.baselines = tuple(settings.baselines or scripts)
        self.learner = Rating()
        self.met: dict[str, OpponentRecord] = {}  # opponents that are not in the archive
        self._latest: deque[int] = deque(maxlen=WINDOW)  # outcomes against the archive since the last entry
        self._log = RatingLog(folder, total_steps)

    def due(self, before: int, steps: int) -> bool:
        """Whether the learner should enter the archive between `before` and `steps`."""
        if steps // self.every == before // self.every:
            return False
        return self.settings.enter == "schedule" or not self.archive.active or self.beats_archive

    def steps_until_due(self, steps: int) -> int:
        """How many steps until the learner may enter the archive again."""
        return self.every - steps % self.every

    @property
    def beats_archive(self) -> bool:
        """Whether the learner has won enough of its latest games against the archive; a draw is half a win."""
        if len(self._latest) < MIN_GAMES:
            return False
        score = sum(0.5 * (1 + outcome) for outcome in self._latest) / len(self._latest)
        return score >= self.settings.win_rate

    def enter(self, step: int, agent: Tree) -> PastAgent:
        """Add the learner as it is now: `agent` is what a checkpoint's part "agent" holds. A disk error raises OSError
        and changes nothing."""
        member = self.archive.enter(step, agent, self.learner)
        self._latest.clear()
        return member

    def choose_opponent(self, kind: float, which: float) -> OpponentChoice:
        """The next opponent, from two uniform numbers in [0, 1)."""
        return choose_opponent(self.archive.active, self.baselines, self.settings, kind, which)

    def add_game(self, name: str, outcome: int) -> None:
        """Count a game that the learner won (1), drew (0) or lost (-1), against a member of this name, which may have
        retired since, or against another opponent. Games without an opponent, or against itself, do not count."""
        if name in UNRATED:
            return
        member = self.archive.find(name)
        if member is not None:
            self._latest.append(outcome)
        record = member.record if member else self.met.setdefault(name, OpponentRecord())
        self.learner, record.rating = update(self.learner.drifted(), record.rating, outcome)
        record.add_game(outcome)

    def add_games(self, name: str, won: int, drawn: int, lost: int) -> None:
        """Count many games against one opponent at once, in no particular order. Ratings see at most `MOST_RATED` of
        them, in the same shares: a rating takes a tenth of a millisecond, and so many say almost as much as all."""
        games = won + drawn + lost
        if name.partition("@")[0] in UNRATED or not games:
            return
        some = spread_outcomes(won, drawn, lost, MOST_RATED)
        for outcome in some:
            self.add_game(name, outcome)
        member = self.archive.find(name)
        (member.record if member else self.met[name]).add_more(won, drawn, lost, some)
        if member is not None:
            self._latest.extend(spread_outcomes(won, drawn, lost, WINDOW)[len(some) :])

    def log_ratings(self, before: int, steps: int, *, now: bool = False) -> None:
        """Write the ratings to the league's folder if that is due between `before` and `steps`, or `now`. A disk error
        raises OSError."""
        if now or self._log.due(before, steps):
            self._log.append(steps, league_rows(steps, self.learner, self.archive.members, self.met))

    def load_policy(self, name: str) -> Agent:
        """The agent of the member of this name."""
        member = self.archive.find(name)
        if member is None:
            raise RunError(f"there is no {name!r} in the league's archive")
        return self.archive.load_policy(member)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def state(self) -> Tree:
        """Everything but the agents themselves, as plain values: the part "league" of a checkpoint."""
        return {
            "learner": rating_state(self.learner),
            "latest": list(self._latest),
            "met": {name: record.state() for name, record in self.met.items()},
            "members": self.archive.state(),
        }

    def load(self, state: Tree) -> None:
        """Continue from `state()`, with the archive as it was then."""
        self.archive.load(state["members"])
        self.learner = rating_from(state["learner"])
        self.met = {name: OpponentRecord.from_state(saved) for name, saved in state["met"].items()}
        self._latest = deque(state["latest"], maxlen=WINDOW)


def spread_outcomes(won: int, drawn: int, lost: int, most: int) -> list[int]:
    """At most so many outcomes, in the shares of these counts, and mixed.

    >>> spread_outcomes(600, 0, 300, 6)
    [1, -1, 1, 1, -1, 1]
    >>> spread_outcomes(1, 1, 0, 6)
    [1, 0]
    """
    total = won + drawn + lost
    count = min(total, most)
    chosen, taken = [], {1: 0.0, 0: 0.0, -1: 0.0}
    for _ in range(count):
        for outcome, number in ((1, won), (0, drawn), (-1, lost)):
            taken[outcome] += number / total
        outcome = max(taken, key=lambda key: taken[key])
        taken[outcome] -= 1.0
        chosen.append(outcome)
    return chosen
