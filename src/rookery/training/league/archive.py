"""Past agents of a run: their files, their ratings, and who of them is still played against.

Each member has a folder in the form of a checkpoint with the one part "agent". Files of those who left stay as long as
the run may be resumed from a checkpoint that still counts on them; they are small.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import CheckpointError
from rookery.files import own_folder
from rookery.training.league.ratings import Rating
from rookery.training.league.standing import Standing, rating_from, rating_state
from rookery.training.storage import checkpoint
from rookery.training.storage.state_tree import Tree, check_kinds

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

NAME = re.compile(r"step-\d+(-\d+)?")
FOLDER = "league"  # in a run's own


@dataclass
class Member:
    """A past agent. `entered` is how good the learner was held to be when it entered."""

    name: str
    step: int
    entered: Rating
    standing: Standing
    retired: bool = False

    def state(self) -> Tree:
        """As plain values."""
        entered = rating_state(self.entered)
        return {"step": self.step, "retired": self.retired, "entered": entered, "standing": self.standing.state()}

    @classmethod
    def from_state(cls, name: str, state: dict[str, Any]) -> Member:
        check_kinds(state, cls(name, 0, Rating(), Standing()).state(), (name,))
        standing = Standing.from_state(state["standing"])
        return cls(name, state["step"], rating_from(state["entered"]), standing, state["retired"])


class Archive:
    """The members in `folder`, in the order in which they entered; at most `size` of them are not retired."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = Path(folder), size
        self.members: list[Member] = []

    @property
    def active(self) -> list[Member]:
        """Those who are played against."""
        return [member for member in self.members if not member.retired]

    def find(self, name: str) -> Member | None:
        """The member of this name, retired or not."""
        return next((member for member in self.members if member.name == name), None)

    def enter(self, step: int, agent: Tree, rating: Rating) -> Member:
        """Take in an agent, as in a checkpoint's part "agent". If there are too many then, the lowest rated of the
        others retires. Disk trouble raises OSError and changes nothing."""
        member = Member(self._new_name(step), step, rating, Standing(rating))
        checkpoint.save(self.folder / member.name, {"agent": agent})
        others = self.active
        self.members.append(member)
        if len(others) >= self.size:
            min(others, key=lambda other: other.standing.rating.value).retired = True
        return member

    def _new_name(self, step: int) -> str:
        name, edition = f"step-{step}", 1
        while self.find(name) is not None:
            edition += 1
            name = f"step-{step}-{edition}"
        return name

    def load_policy(self, member: Member) -> Agent:
        """The agent that a member is."""
        from rookery.training.storage.load_agent import (
            agent_from,  # with torch, which those who only look at ratings do without
        )

        return agent_from(self._read(member)["agent"])

    def _read(self, member: Member) -> Tree:
        try:
            return checkpoint.load(self.folder / member.name, only=("agent",))
        except CheckpointError as error:
            raise CheckpointError(f"{member.name} of the league cannot be used: {error}") from error

    # --- going on later -------------------------------------------------------------------------------------------

    def state(self) -> Tree:
        """Who is in it, as plain values; the agents themselves are in their folders."""
        return {member.name: member.state() for member in self.members}

    def load(self, state: Tree) -> None:
        """Be as at `state()`: to be called when a run is resumed. Agents that entered later are removed; one that is
        missing or damaged raises a CheckpointError."""
        self.look_up(state)
        for member in self.active:
            self._read(member)
        for path in own_folder(self.folder).iterdir():
            if NAME.fullmatch(path.name) and self.find(path.name) is None and _is_folder(path):
                shutil.rmtree(path, ignore_errors=True)

    def look_up(self, state: Tree) -> None:
        """Be as at `state()`, without touching a file."""
        strange = next((name for name in state if not NAME.fullmatch(name)), None)
        if strange is not None:  # names are folders, and should not lead out of this one
            raise CheckpointError(f"{strange!r:.80} cannot be the name of an agent in a league")
        self.members = [Member.from_state(name, saved) for name, saved in state.items()]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
