"""Past agents of a run: their files, their ratings, and which of them are still opponents.

Each member has a folder in the form of a checkpoint with the one part "agent". The files of retired members stay, since
the run may be resumed from a checkpoint in which they were not retired; they are small.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import CheckpointError
from rookery.files import own_folder
from rookery.training.league.opponent_record import OpponentRecord, rating_from, rating_state
from rookery.training.league.ratings import Rating
from rookery.training.storage import checkpoint
from rookery.training.storage.state_tree import Tree, check_types

if TYPE_CHECKING:
    from rookery.learners.agent import Agent

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
        """The agent of a member."""
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
            if NAME.fullmatch(path.name) and self.find(path.name) is None and _is_folder(path):
                shutil.rmtree(path, ignore_errors=True)

    def restore_members(self, state: Tree) -> None:
        """Restore `state()` without touching a file."""
        invalid = next((name for name in state if not NAME.fullmatch(name)), None)
        if invalid is not None:  # names are folders, and must not point out of this one
            raise CheckpointError(f"{invalid!r:.80} cannot be the name of an agent in a league")
        self.members = [PastAgent.from_state(name, saved) for name, saved in state.items()]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
