"""Past agents of a run: their files, their ratings, and which of them are still opponents.

Each member has a folder in the form of a checkpoint with the one part "agent". The files of retired members stay, since
the run may be resumed from a checkpoint in which they were not retired; they are small.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.console import printable
from rookery.errors import CheckpointError, RunError
from rookery.files import own_folder
from rookery.training.league.ratings import Rating
from rookery.training.storage import checkpoint
from rookery.training.storage.checkpoint import LARGEST_STATE, STATE, Checkpoints
from rookery.training.storage.checkpoint_files import (
    MALFORMED,
    Tree,
    check_types,
    parse_json,
    read_contents,
    short_text,
)
from rookery.training.storage.run_dir import RunDir

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

DECAY = 0.99  # of a game's weight with each later game: about the last hundred count
MAX_RATING = 1e6
PRIOR = 4.0  # games, half of them won, that are assumed before the first one


@dataclass
class OpponentRecord:
    """An opponent's rating, and the learner's results against it."""

    rating: Rating = field(default_factory=Rating)
    won: int = 0
    drawn: int = 0
    lost: int = 0
    _weight: float = 0.0  # of the games, by their decay
    _score: float = 0.0  # the part of it that was won

    @property
    def games(self) -> int:
        return self.won + self.drawn + self.lost

    @property
    def win_rate(self) -> float:
        """The learner's expected share of the next game, from the latest ones; a draw is half a win.

        >>> OpponentRecord().win_rate
        0.5
        """
        return (self._score + 0.5 * PRIOR) / (self._weight + PRIOR)

    def add_game(self, outcome: int) -> None:
        """Count a game that the learner won (1), drew (0) or lost (-1)."""
        self.won += outcome > 0
        self.drawn += outcome == 0
        self.lost += outcome < 0
        self._weight = DECAY * self._weight + 1.0
        self._score = DECAY * self._score + 0.5 * (1 + outcome)

    def add_more(self, won: int, drawn: int, lost: int, counted: Sequence[int]) -> None:
        """Count games of which some were counted already, as if these had been the last ones."""
        more = (won - counted.count(1), drawn - counted.count(0), lost - counted.count(-1))
        games = sum(more)
        if not games:
            return
        self.won, self.drawn, self.lost = self.won + more[0], self.drawn + more[1], self.lost + more[2]
        before = DECAY**games
        weight = (1.0 - before) / (1.0 - DECAY)
        self._weight = before * self._weight + weight
        self._score = before * self._score + weight * (more[0] + 0.5 * more[1]) / games

    def state(self) -> Tree:
        """As plain values, for a checkpoint."""
        return {
            **rating_state(self.rating), "won": self.won, "drawn": self.drawn, "lost": self.lost,
            "weight": self._weight, "score": self._score,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> OpponentRecord:
        check_types(state, cls().state(), ("standing",))
        counts = (state[name] for name in ("won", "drawn", "lost", "weight", "score"))
        return cls(rating_from(state), *counts)


def rating_from(state: dict[str, Any]) -> Rating:
    """A rating from plain values, which are checked: the file may be from anywhere."""
    check_types(state, rating_state(Rating()), ("rating",))
    if not all(abs(state[name]) < MAX_RATING for name in ("mu", "sigma")):
        raise CheckpointError(f"a rating of {state['mu']!r:.20} ± {state['sigma']!r:.20} is not possible")
    return Rating(float(state["mu"]), float(state["sigma"]))


def rating_state(rating: Rating) -> Tree:
    return {"mu": rating.mu, "sigma": rating.sigma}


NAME = re.compile(r"step-\d+(-\d+)?")
FOLDER = "league"  # in a run's own


@dataclass
class PastAgent:
    """A past agent in the archive. `entered` is the learner's rating when it entered."""

    name: str
    step: int
    entered: Rating
    record: OpponentRecord
    retired: bool = False

    def state(self) -> Tree:
        """As plain values, for a checkpoint."""
        entered = rating_state(self.entered)
        return {"step": self.step, "retired": self.retired, "entered": entered, "standing": self.record.state()}

    @classmethod
    def from_state(cls, name: str, state: dict[str, Any]) -> PastAgent:
        check_types(state, cls(name, 0, Rating(), OpponentRecord()).state(), (name,))
        record = OpponentRecord.from_state(state["standing"])
        return cls(name, state["step"], rating_from(state["entered"]), record, state["retired"])


class Archive:
    """The members in `folder`, in the order in which they entered; at most `size` of them are not retired."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = Path(folder), size
        self.members: list[PastAgent] = []

    @property
    def active(self) -> list[PastAgent]:
        """Members that are opponents."""
        return [member for member in self.members if not member.retired]

    def find(self, name: str) -> PastAgent | None:
        """The member of this name, retired or not."""
        return next((member for member in self.members if member.name == name), None)

    def enter(self, step: int, agent: Tree, rating: Rating) -> PastAgent:
        """Add an agent, in the form of a checkpoint's part "agent". If there are too many then, the lowest rated of the
        others retires. A disk error raises OSError and changes nothing."""
        member = PastAgent(self._new_name(step), step, rating, OpponentRecord(rating))
        checkpoint.save(self.folder / member.name, {"agent": agent}, parents=False)
        others = self.active
        self.members.append(member)
        if len(others) >= self.size:
            min(others, key=lambda other: other.record.rating.value).retired = True
        return member

    def _new_name(self, step: int) -> str:
        name, edition = f"step-{step}", 1
        while self.find(name) is not None:
            edition += 1
            name = f"step-{step}-{edition}"
        return name

    def load_policy(self, member: PastAgent) -> Agent:
        from rookery.training.storage.load_agent import (
            agent_from,  # imports torch, which showing ratings does not need
        )

        return agent_from(self._read(member)["agent"])

    def _read(self, member: PastAgent) -> Tree:
        try:
            return checkpoint.load(self.folder / member.name, only=("agent",))
        except CheckpointError as error:
            raise CheckpointError(f"{member.name} of the league cannot be used: {error}") from error

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def state(self) -> Tree:
        """The members as plain values; the agents themselves are in their folders."""
        return {member.name: member.state() for member in self.members}

    def load(self, state: Tree) -> None:
        """Restore `state()` when a run is resumed. Agents that entered later are removed; one that is missing or
        damaged raises a CheckpointError."""
        self.restore_members(state)
        for member in self.active:
            self._read(member)
        for path in own_folder(self.folder, parents=False).iterdir():
            is_folder = path.is_dir() and not path.is_symlink()
            if NAME.fullmatch(path.name) and self.find(path.name) is None and is_folder:
                shutil.rmtree(path, ignore_errors=True)

    def restore_members(self, state: Tree) -> None:
        """Restore `state()` without touching a file."""
        invalid = next((name for name in state if not NAME.fullmatch(name)), None)
        if invalid is not None:  # names are folders, and must not point out of this one
            raise CheckpointError(f"{invalid!r:.80} cannot be the name of an agent in a league")
        self.members = [PastAgent.from_state(name, saved) for name, saved in state.items()]


LEARNER = "the learner"


def league_rows(
    step: int, learner: Rating, members: Iterable[PastAgent], met: Mapping[str, OpponentRecord]
) -> list[dict[str, Any]]:
    """A row for each agent, the best first and retired ones last; wins, draws and losses are the learner's. Kinds:
    "learner", "member", "retired" and "other" (an opponent outside the archive, such as a script)."""
    rows = [_row(LEARNER, "learner", step, learner, None)]
    for member in members:
        kind = "retired" if member.retired else "member"
        rows.append(_row(member.name, kind, member.step, member.record.rating, member.record))
    rows += [_row(name, "other", None, record.rating, record) for name, record in met.items()]
    return sorted(rows, key=lambda row: (row["kind"] == "retired", -row["rating"]))


def _row(name: str, kind: str, step: int | None, rating: Rating, against: OpponentRecord | None) -> dict[str, Any]:
    row = {"name": name, "kind": kind, "step": step, "rating": rating.value, "mu": rating.mu, "sigma": rating.sigma}
    known = against is not None and against.games > 0
    counts = {name: getattr(against, name) if against else None for name in ("games", "won", "drawn", "lost")}
    return {**row, **counts, "win_rate": against.win_rate if against is not None and known else None}


PART = "course"  # of a checkpoint, in which the league is


@dataclass(frozen=True)
class StoredLeague:
    """A run's league as it was at `step`."""

    run: RunDir
    step: int
    learner: Rating
    archive: Archive
    met: dict[str, OpponentRecord]


def stored_league(run: RunDir) -> StoredLeague | None:
    """A run's league, read only; None if it has none, as no opponent was a policy."""
    checkpoints = Checkpoints(run.checkpoints)
    latest = checkpoints.latest()
    if latest is None:
        raise RunError(f"{run.name} has no checkpoint yet, which would hold its league")
    if PART not in parse_json(
        latest / STATE, read_contents(latest / STATE, LARGEST_STATE)
    ):  # written before there were leagues
        return None
    step, tree = checkpoints.load_latest(only=(PART,))
    try:
        saved = tree[PART].get("league")
        return None if saved is None else _read(run, step, saved)
    except CheckpointError:
        raise
    except MALFORMED as error:
        raise CheckpointError(f"the league of {run.name} cannot be read: {short_text(error)}") from error


def _read(run: RunDir, step: int, saved: Tree) -> StoredLeague:
    archive = Archive(run.path / FOLDER, size=max(1, len(saved["members"])))
    archive.restore_members(saved["members"])
    met = {printable(name): OpponentRecord.from_state(record) for name, record in saved["met"].items()}
    return StoredLeague(run, step, rating_from(saved["learner"]), archive, met)
