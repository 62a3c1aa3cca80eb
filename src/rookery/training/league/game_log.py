"""The games of a tournament as they are played: `games.jsonl` in the league's folder.

The first line tells what is needed to play any of the games again: world, seed, games of each pair, and for each player
where it comes from, with a hash of its weights. Each other line has games that have ended, as columns: the places of
both `first` and `second` player in the list of players, the `number` of the game within the pair, the `winner` (1: the
first player, 0: nobody, -1: the second player) and the `length` in steps. In games with an odd number the first player
has the second seat.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rookery.files import own_folder, replace_file
from rookery.monitor.jsonl import append_record, open_append_only

if TYPE_CHECKING:
    from rookery.training.evaluation.win_record import GameResults

FILE = "games.jsonl"
SECONDS = 0.5  # between two lines
LONGEST = 2000  # games of a line
COLUMNS = ("first", "second", "number", "winner", "length")


@dataclass(frozen=True)
class LoggedPlayer:
    """A player, and where it comes from.

    Attributes:
        name: As in the report.
        run: The name of the run that the agent is from.
        step: The steps that the agent was trained for.
        source: "league/step-N" or "checkpoints/step-N" in the run's folder, "script:NAME", "shipped:NAME" or "random";
            None if it cannot be told, as of a Python file.
        sha256: The hash of the file with the agent's weights.
    """

    name: str
    run: str | None = None
    step: int | None = None
    source: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class GameHeader:
    """The first line of the file. `id` is the same for the same games."""

    world: str
    games_per_pair: int
    seed: int
    players: list[LoggedPlayer]
    time: float = field(default_factory=time.time)

    @property
    def id(self) -> str:
        what = [self.world, self.games_per_pair, self.seed, [asdict(player) for player in self.players]]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]


class PlayedGames(Protocol):
    """All games of a tournament, as a match has them."""

    pairs: np.ndarray  # [game, 2]: the players
    numbers: np.ndarray  # of each game within its pair
    results: GameResults

    @property
    def ended(self) -> np.ndarray:
        """Which games have ended, as a mask of `pairs`."""


class GameLog:
    """Replaces the file of the last tournament, and then appends to it."""

    def __init__(self, folder: Path, header: GameHeader) -> None:
        path = own_folder(folder, parents=False) / FILE
        replace_file(path, [_line({"id": header.id, **asdict(header)})])
        self._file = open_append_only(path)
        self._written: np.ndarray | None = None
        self._next = 0.0

    def add(self, match: PlayedGames, *, last: bool = False) -> None:
        """Write the games that have ended since the last line, unless that was just now and there are more to come."""
        if time.monotonic() < self._next and not last:
            return
        ended = match.ended
        new = np.flatnonzero(ended if self._written is None else ended & ~self._written)
        for some in np.split(new, range(LONGEST, len(new), LONGEST)):
            columns = (
                *match.pairs[some].T,
                match.numbers[some],
                match.results.winners[some],
                match.results.lengths[some],
            )
            line = {name: column.tolist() for name, column in zip(COLUMNS, columns, strict=True)}
            if len(some):
                append_record(self._file, _line(line))
        self._written, self._next = ended, time.monotonic() + SECONDS

    def close(self) -> None:
        self._file.close()


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
