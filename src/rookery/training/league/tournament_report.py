"""The report of a tournament, with its players and results, as it is kept in a run's folder."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.errors import RunError
from rookery.files import own_folder, read_plain, replace_file
from rookery.training.league.archive import FOLDER
from rookery.training.league.pair_results import PairResults, spearman
from rookery.training.league.ratings import Rating

FILE = "tournament.json"
LARGEST = 64 << 20  # bytes: a few thousand players


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
        path = own_folder(run / FOLDER) / FILE
        replace_file(path, [json.dumps(self.as_json(), indent=2).encode(), b"\n"])
        return path


def _entry(row: dict[str, Any]) -> Entry:
    run, step = row["run"], row["step"]
    return Entry(printable(row["name"]), None if run is None else printable(run), None if step is None else int(step))


def last_report(run: Path) -> TournamentReport | None:
    """The report of a run's last tournament; None if there was none."""
    path = run / FOLDER / FILE
    try:
        return TournamentReport.from_json(json.loads(read_plain(path, LARGEST)))
    except FileNotFoundError:
        return None
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{path} cannot be used: {error}; `rookery league RUN --games 50` writes a new one") from error
