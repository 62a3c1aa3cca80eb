"""`rookery league`: the ratings of a run's past agents, or a tournament between them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rookery.engine.settings import positive_int
from rookery.errors import OptionError
from rookery.files import check_file, own_folder
from rookery.monitor.plots import drawn_if_possible
from rookery.training.league.archive import StoredLeague, stored_league
from rookery.training.league.league_table import (
    PLOT_FILE,
    check_picture_file,
    draw_league,
    print_report,
    print_stored,
    stored_rows,
)
from rookery.training.league.tournament_report import TournamentReport, last_report
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import NamedRun, find_runs

if TYPE_CHECKING:
    from rookery.training.league.tournament import PlayTournament


@dataclass(frozen=True, repr=False)
class LeagueResult:
    """Returned by `rookery.league`: the archives of runs with their ratings, and the last tournament."""

    stored: list[StoredLeague]
    tournament: TournamentReport | None
    plot: Path | None

    def __repr__(self) -> str:
        agents = ", ".join(f"{len(stored_rows(league))} agents of {league.run.name}" for league in self.stored)
        played = "" if self.tournament is None else f"a tournament of {len(self.tournament.as_json()['players'])}"
        return f"LeagueResult({', '.join(filter(None, (agents, played)))})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        stored = [{"run": one.run.name, "step": one.step, "agents": stored_rows(one)} for one in self.stored]
        return {
            "leagues": stored,
            "tournament": None if self.tournament is None else self.tournament.as_json(),
            "plot": None if self.plot is None else str(self.plot),
        }

    def print(self) -> None:
        """Print it as tables."""
        for one in self.stored:
            print_stored(one, stored_rows(one))
            print()
        if self.tournament is not None:
            print_report(self.tournament)
            print()
        if self.plot is not None:
            print(f"plot: {self.plot}")


def league(
    *runs: NamedRun,
    games: int | None = None,
    others: Sequence[str] = (),
    seed: int | None = None,
    plot: str | Path | None = None,
    on: Literal["local", "ray"] = "local",
    address: str | None = None,
    runs_dir: str | Path = "runs",
    trust: bool = False,
) -> LeagueResult:
    """Show the league of a run, or play a tournament between its agents.

    Without `games` these are the ratings that training gave to the agents in the run's archive. With `games` every two
    agents play each other: those of the archive (or the checkpoints, if there is no archive), the latest agent, and
    `others`. The result is stored in the run's folder.

    Args:
        runs: Results of `rookery.train`, or runs by their names, paths or as "latest".
        games: How many games each pair plays.
        others: Further players, such as "weak", "strong", another run, a checkpoint's folder or "file.py:Agent".
        seed: Of the games; if omitted, derived from the run.
        plot: The picture; if omitted, plots/league.png in the run's folder.
        on: Where the games are played: here, or on a Ray cluster with this `address`.
        runs_dir: The folder of the runs.
        trust: Run the code of the runs' worlds without a question, even if this user has not trained with it here.
    """
    _check(games, others, seed, plot, on, address)
    found = find_runs(runs, runs_dir)
    if not found:
        raise OptionError("name the run whose league is meant, such as 'latest'")
    stored: list[StoredLeague] = []
    if games is None:
        stored = [one for run in found if (one := stored_league(run)) is not None]
        report = last_report(found[0].outputs) if len(found) == 1 else None
        _refuse_empty(found, stored, report)
    else:
        from rookery.training.league.tournament import enter_tournament  # loads torch

        tournament = enter_tournament(found, games, others=list(others), runs_dir=runs_dir, seed=seed, trust=trust)
        with _place(on, address) as play, _games_bar() as progress:
            report = tournament.hold(play, progress)
    return LeagueResult(stored, report, _draw(plot, found[0], stored, report))


def _check(
    games: int | None, others: Sequence[str], seed: int | None, plot: str | Path | None, on: str, address: str | None
) -> None:
    """Refuse before the games what would fail after them."""
    if games is not None:
        positive_int("games", games)
    elif others or seed is not None or on != "local":
        raise OptionError("--with, --seed and --on are for a tournament: give --games as well, such as --games 50")
    if address and on == "local":
        raise OptionError("--address is that of a Ray cluster: give --on ray as well")
    if plot is not None:
        check_file(plot)
        check_picture_file(str(plot))


def _place(on: str, address: str | None) -> contextlib.AbstractContextManager[PlayTournament]:
    """What plays the games."""
    if on == "ray":
        return import_module("rookery.cluster.ray_league").open_ray_tournament(address)
    from rookery.training.league.tournament import play_tournament

    return contextlib.nullcontext(play_tournament)


@contextlib.contextmanager
def _games_bar() -> Iterator[Callable[[int, int], None]]:
    """Progress on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("games"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    screen = Console(stderr=True)
    with Progress(
        *columns, console=screen, transient=True, refresh_per_second=4, disable=not screen.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _refuse_empty(runs: list[RunDir], stored: list[StoredLeague], report: TournamentReport | None) -> None:
    if not stored and report is None:
        names = " and ".join(run.name for run in runs)
        raise OptionError(
            f"{names} has no league, because it played no agents in training; in a game for two, `rookery league "
            f"{runs[0].name} --games 50 --with weak,strong` plays a tournament between its checkpoints"
        )


def _draw(
    wish: str | Path | None, run: RunDir, stored: list[StoredLeague], report: TournamentReport | None
) -> Path | None:
    def draw() -> Path:
        return draw_league(stored, report, Path(wish) if wish else own_folder(run.plots) / PLOT_FILE)

    return drawn_if_possible(draw, bool(wish))
