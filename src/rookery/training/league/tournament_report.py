"""The report of a tournament, with its players and results, as it is kept in a run's folder."""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rookery.console import printable
from rookery.errors import RunError
from rookery.files import own_folder, read_plain, replace_file
from rookery.monitor.jsonl import append_record, open_append_only
from rookery.training.league.archive import FOLDER
from rookery.training.league.ratings import PairResults, Rating, spearman

if TYPE_CHECKING:
    from rookery.training.evaluation.win_record import GameResults

REPORT_FILE = "tournament.json"
LARGEST = 64 << 20  # bytes: a few thousand players
IN_RUN = re.compile(r"(league|checkpoints)/(step-[0-9]{1,18}(?:-[0-9]{1,9})?)")  # where an agent is in a run's folder


@dataclass(frozen=True)
class Entry:
    """A player. An agent of a run has that run's name and a step."""

    name: str
    run: str | None = None
    step: int | None = None


@dataclass(frozen=True)
class TournamentReport:
    """A tournament of `entries`, in the order of `results`."""

    world: str
    games: int  # of each pair
    seed: int
    entries: list[Entry]
    results: PairResults
    ratings: list[Rating]
    time: float = field(default_factory=time.time)
    id: str | None = None  # that of the games in `games.jsonl`; None for a report from before there were any

    @property
    def title(self) -> str:
        """The runs whose agents played, and their world."""
        runs = list(dict.fromkeys(entry.run for entry in self.entries if entry.run is not None))
        return " · ".join([", ".join(runs), self.world])

    @property
    def order(self) -> list[int]:
        """Players from the best to the last."""
        return sorted(range(len(self.entries)), key=lambda k: -self.ratings[k].value)

    def agreement(self) -> dict[str, float | None]:
        """Spearman's correlation of ratings with the share of games won, and with that in which a draw is half a win;
        None where all are equal."""
        values = np.array([rating.value for rating in self.ratings])
        found: dict[str, float | None] = {}
        for name, rates in (("win_rate", self.results.win_rates), ("score", self.results.scores)):
            alike = len(set(values)) == 1 or len(set(rates)) == 1
            found[name] = None if alike else spearman(values, rates)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """A row for each player, the best first."""
        won, drawn, games = (part.sum(1) for part in (self.results.won, self.results.drawn, self.results.games))
        return [
            {
                "name": self.entries[k].name,
                "run": self.entries[k].run,
                "step": self.entries[k].step,
                "rating": self.ratings[k].value,
                "mu": self.ratings[k].mu,
                "sigma": self.ratings[k].sigma,
                "games": int(games[k]),
                "won": int(won[k]),
                "drawn": int(drawn[k]),
                "lost": int(games[k] - won[k] - drawn[k]),
                "win_rate": float(self.results.win_rates[k]),
                "score": float(self.results.scores[k]),
            }
            for k in self.order
        ]

    def as_json(self) -> dict[str, Any]:
        """`won[a][b]` and `drawn[a][b]` are games of players a and b, counted as they are listed."""
        order = np.array(self.order)
        matrices = {name: getattr(self.results, name)[np.ix_(order, order)].tolist() for name in ("won", "drawn")}
        return {
            "world": self.world,
            "games_per_pair": self.games,
            "seed": self.seed,
            "time": self.time,
            "id": self.id,
            "spearman": self.agreement(),
            "players": self.rows(),
            **matrices,
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> TournamentReport:
        entries = [_entry(row) for row in saved["players"]]
        results = PairResults(np.array(saved["won"], np.int64), np.array(saved["drawn"], np.int64))
        if not results.won.shape == results.drawn.shape == (len(entries), len(entries)):
            raise ValueError(f"{len(entries)} players do not fit {results.won.shape} games")
        ratings = [Rating(float(row["mu"]), float(row["sigma"])) for row in saved["players"]]
        games, seed, when = int(saved["games_per_pair"]), int(saved["seed"]), float(saved["time"])
        known = None if saved.get("id") is None else printable(saved["id"])
        return cls(printable(saved["world"]), games, seed, entries, results, ratings, when, known)

    def save(self, run: Path) -> Path:
        """Write it to the run's folder, replacing the one before."""
        path = own_folder(run / FOLDER) / REPORT_FILE
        replace_file(path, [json.dumps(self.as_json(), indent=2).encode(), b"\n"])
        return path


def _entry(row: dict[str, Any]) -> Entry:
    run, step = row["run"], row["step"]
    return Entry(printable(row["name"]), None if run is None else printable(run), None if step is None else int(step))


def last_report(run: Path) -> TournamentReport | None:
    """The report of a run's last tournament; None if there was none."""
    path = run / FOLDER / REPORT_FILE
    try:
        return TournamentReport.from_json(json.loads(read_plain(path, LARGEST)))
    except FileNotFoundError:
        return None
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path} cannot be used: {error}; `rookery league RUN --games 50` writes a new one") from error


GAMES_FILE = "games.jsonl"
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
            None if it is unknown, as for a Python file.
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
        path = own_folder(folder, parents=False) / GAMES_FILE
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
