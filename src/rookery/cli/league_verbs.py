"""The command about agents who play each other: league. It imports what it needs when it runs."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.run_verbs import check_file, check_seed, trust_argument
from rookery.errors import MissingExtra, OptionError
from rookery.training import check_installed
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.training.league.league_files import StoredLeague
    from rookery.training.league.tournament_report import TournamentReport
    from rookery.training.storage.run_dir import RunDir

Commands = argparse._SubParsersAction
Command = Callable[..., argparse.ArgumentParser]  # rookery.cli.main's own, with which every command begins

USUAL_GAMES = 50


def add_commands(commands: Commands, command: Command) -> None:
    """Add it to the parser."""
    parser = command(
        commands, "league", _league, "show a run's league, or let its agents play a tournament",
        "Without --games the table is what training has learned about the agents in the run's archive. With it, every "
        "two of them meet, the latest one and those of --with too, and the result is kept in the run's folder. A run "
        "that has no archive enters its checkpoints. Either way the ratings are drawn over steps, and of a tournament "
        "also who beats whom.",
        "rookery league latest --games 50 --with weak,strong",
    )  # fmt: skip
    parser.add_argument("names", nargs="+", metavar="RUN", help="a run's name, its folder, or latest; or several")
    parser.add_argument(
        "--games", type=int, nargs="?", const=USUAL_GAMES, metavar="N",
        help=f"play a tournament, with so many games for each pair ({USUAL_GAMES} if no number is given)",
    )  # fmt: skip
    parser.add_argument(
        "--with", dest="others", default="", metavar="LIST",
        help=f"who else plays, with commas between: weak, strong, none (stands still), {', '.join(registry.agents())}, "
        "another run, a checkpoint's folder, file.py:Agent",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of the games (one of the run's own)")
    parser.add_argument("--plot", metavar="FILE", help="the picture (plots/league.png in the run's folder)")
    parser.add_argument("--runs-dir", default="runs", metavar="DIR", help="where runs are (runs)")
    trust_argument(parser)


def _league(options: argparse.Namespace) -> int:
    _check(options)
    from rookery import printing
    from rookery.training.league.league_files import stored_league
    from rookery.training.league.tournament_report import last_report
    from rookery.training.storage.run_dir import RunDir

    runs = [RunDir.find(name, Path(options.runs_dir)) for name in options.names]
    stored: list[StoredLeague] = []
    if options.games is None:
        stored = [league for run in runs if (league := stored_league(run)) is not None]
        report = last_report(runs[0].path) if len(runs) == 1 else None
        _refuse_nothing(runs, stored, report)
    else:
        report = _played(options, runs)
    picture = _drawn(options.plot, runs[0], stored, report)
    if options.json:
        printing.emit_json(_as_json(stored, report, picture))
    else:
        _print(stored, report, picture)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse at once what would fail after the games."""
    if options.games is not None:
        from rookery.engine.settings import positive_int

        positive_int("games", options.games)
        check_installed()
    elif options.others or options.seed is not None:
        raise OptionError("--with and --seed are for a tournament: give --games as well, such as --games 50")
    check_seed(options.seed)
    if options.plot:
        from rookery.training.league.league_plot import check_picture_file

        check_file(options.plot)
        check_picture_file(options.plot)


def _played(options: argparse.Namespace, runs: list[RunDir]) -> TournamentReport:
    from rookery.training.league.entrants import hold_tournament

    others = [who.strip() for who in options.others.split(",") if who.strip()]
    with _bar() as progress:
        return hold_tournament(
            runs, options.games, others=others, runs_dir=options.runs_dir, seed=options.seed, trust=options.trust,
            progress=progress,
        )  # fmt: skip


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
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


def _refuse_nothing(runs: list[RunDir], stored: list[StoredLeague], report: TournamentReport | None) -> None:
    if not stored and report is None:
        names = " and ".join(run.name for run in runs)
        raise OptionError(
            f"{names} kept no league, as it met no agents in training; `rookery league {runs[0].name} --games 50 "
            "--with weak,strong` lets its checkpoints play, in a game for two"
        )


def _drawn(wish: str | None, run: RunDir, stored: list[StoredLeague], report: TournamentReport | None) -> Path | None:
    """The picture; unless it was asked for, it is not worth failing for."""
    from rookery.console import say
    from rookery.files import own_folder
    from rookery.training.league.league_plot import FILE, draw_league

    try:
        return draw_league(stored, report, Path(wish) if wish else own_folder(run.plots) / FILE)
    except (MissingExtra, OSError) as error:
        if wish:
            raise
        say(f"no plot was drawn: {error}")
        return None


def _as_json(stored: list[StoredLeague], report: TournamentReport | None, picture: Path | None) -> dict[str, Any]:
    from rookery.training.league.league_table import stored_rows

    leagues = [{"run": league.run.name, "step": league.step, "agents": stored_rows(league)} for league in stored]
    return {
        "leagues": leagues,
        "tournament": None if report is None else report.as_json(),
        "plot": None if picture is None else str(picture),
    }


def _print(stored: list[StoredLeague], report: TournamentReport | None, picture: Path | None) -> None:
    from rookery.training.league.league_table import print_report, print_stored, stored_rows

    for league in stored:
        print_stored(league, stored_rows(league))
        print()
    if report is not None:
        print_report(report)
        print()
    if picture is not None:
        print(f"drawn: {picture}")
