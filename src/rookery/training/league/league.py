"""The league of a run: the archive of past agents, the learner's rating, and the results of its games."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from rookery.config.sections import LeagueOptions
from rookery.errors import RunError
from rookery.training.league.archive import Archive, OpponentRecord, PastAgent, league_rows, rating_from, rating_state
from rookery.training.league.ratings import Rating, RatingLog, model, update
from rookery.training.storage.checkpoint_files import Tree

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

SELF = "self"


class OpponentChoice(NamedTuple):
    """An opponent: a member of the archive or a baseline, by its name, or the learner itself."""

    kind: Literal["member", "baseline", "self"]
    name: str


def choose_opponent(
    members: Sequence[PastAgent], baselines: Sequence[str], settings: LeagueOptions, kind: float, which: float
) -> OpponentChoice:
    """An opponent from two uniform random numbers in [0, 1): for the kind of choice, and for which opponent.

    As long as there are no members it is a baseline or, if baselines have no share, the learner itself.
    """
    shares = shares_of(len(members), len(baselines), settings)
    if not any(shares):
        return OpponentChoice("self", SELF)
    way = pick(shares, kind)
    if way == 2:
        return OpponentChoice("baseline", baselines[pick(np.ones(len(baselines)), which)])
    weights = priorities(members, settings.hardness) if way == 0 else np.ones(len(members))
    return OpponentChoice("member", members[pick(weights, which)].name)


def draw_chances(win_rates: Mapping[str, float], baselines: Sequence[str], settings: LeagueOptions) -> dict[str, float]:
    """How likely `choose_opponent` returns each of these members, by the learner's win rates, and each baseline.

    >>> draw_chances({"step-1": 0.5, "step-2": 1.0}, ["weak"], LeagueOptions())
    {'step-1': 0.8, 'step-2': 0.1, 'weak': 0.1}
    """
    shares = _normalised(shares_of(len(win_rates), len(baselines), settings))
    weights = _normalised(_priorities(list(win_rates.values()), settings.hardness))
    members = shares[0] * weights + shares[1] / max(1, len(win_rates))
    found = dict(zip(win_rates, members.round(6).tolist(), strict=True))
    return found | {name: round(float(shares[2]) / len(baselines), 6) for name in baselines}


def _normalised(weights: Sequence[float] | np.ndarray) -> np.ndarray:
    """The same with a sum of 1, unless all are 0."""
    return np.asarray(weights) / (np.sum(weights) or 1.0)


def shares_of(members: int, baselines: int, settings: LeagueOptions) -> list[float]:
    """Of members by their win rates, of members drawn uniformly, and of baselines; all 0 for the learner itself."""
    by_win_rate, uniform = (settings.pfsp, settings.random) if members else (0.0, 0.0)
    shares = [by_win_rate, uniform, settings.baseline if baselines else 0.0]
    if members and not any(shares):
        shares[1] = 1.0  # only baselines have a share, and there are none
    return shares


def priorities(members: Sequence[PastAgent], hardness: float) -> np.ndarray:
    """Weights of prioritised fictitious self-play: opponents that the learner rarely beats are chosen more often."""
    return _priorities([member.record.win_rate for member in members], hardness)


def _priorities(win_rates: Sequence[float], hardness: float) -> np.ndarray:
    return np.array([(1.0 - win_rate) ** hardness for win_rate in win_rates])


def pick(weights: Sequence[float] | np.ndarray, uniform: float) -> int:
    """The index that a uniform random number in [0, 1) selects by weights.

    >>> [pick([1.0, 0.0, 3.0], u) for u in (0.0, 0.24, 0.26, 0.999)]
    [0, 0, 2, 2]
    """
    edges = np.cumsum(weights)
    return int(np.searchsorted(edges[:-1], uniform * edges[-1], side="right"))


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
