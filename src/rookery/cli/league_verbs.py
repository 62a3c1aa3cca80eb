"""The command `league`: the ratings of a run's agents, and tournaments between them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import check_file, check_seed, runs_dir_argument, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.errors import MissingExtra, OptionError
from rookery.training import check_installed
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.training.league.league_files import StoredLeague
    from rookery.training.league.tournament import PlayTournament
    from rookery.training.league.tournament_report import TournamentReport
    from rookery.training.storage.run_dir import RunDir

USUAL_GAMES = 50


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "league", _league, "show the league of a run, or play a tournament between its agents",
        "Without --games it prints the ratings that training gave to the agents in the run's archive. With --games "
        "every two agents play each other: those of the archive (or the checkpoints, if there is no archive), the "
        "latest agent, and those of --with. The result is stored in the run's folder. A plot shows the ratings over "
        "steps, and the win rate of each pair after a tournament.",
        "rookery league latest --games 50 --with weak,strong",
    )  # fmt: skip
    parser.add_argument(
        "names", nargs="+", metavar="RUN", help="the name of a run, its folder, or latest; can be several"
    )
    parser.add_argument(
        "--games", type=int, nargs="?", const=USUAL_GAMES, metavar="N",
        help=f"play a tournament with N games for each pair (without N: {USUAL_GAMES})",
    )  # fmt: skip
    parser.add_argument(
        "--with", dest="others", default="", metavar="LIST",
        help=f"further players, separated by commas: weak, strong, none (stands still), "
        f"{', '.join(registry.agents())}, another run, a checkpoint's folder, file.py:Agent",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the games (derived from the run)")
    parser.add_argument("--plot", metavar="FILE", help="the plot (plots/league.png in the run's folder)")
    parser.add_argument("--on", choices=("local", "ray"), default="local", help="where the games are played")
    parser.add_argument("--address", metavar="auto|HOST:PORT", help="the Ray cluster; without, one is started here")
    runs_dir_argument(parser)
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
        report = last_report(runs[0].outputs) if len(runs) == 1 else None
        _refuse_empty(runs, stored, report)
    else:
        report = _play_tournament(options, runs)
    plot = _draw(options.plot, runs[0], stored, report)
    if options.json:
        printing.emit_json(_as_json(stored, report, plot))
    else:
        _print(stored, report, plot)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse before the games what would fail after them."""
    if options.games is not None:
        from rookery.engine.settings import positive_int

        positive_int("games", options.games)
        check_installed()
    elif options.others or options.seed is not None or options.on != "local":
        raise OptionError("--with, --seed and --on are for a tournament: give --games as well, such as --games 50")
    if options.address and options.on == "local":
        raise OptionError("--address is that of a Ray cluster: give --on ray as well")
    check_seed(options.seed)
    if options.plot:
        from rookery.training.league.league_plot import check_picture_file

        check_file(options.plot)
        check_picture_file(options.plot)


def _play_tournament(options: argparse.Namespace, runs: list[RunDir]) -> TournamentReport:
    from rookery.training.league.entrants import enter_tournament

    others = [who.strip() for who in options.others.split(",") if who.strip()]
    tournament = enter_tournament(
        runs, options.games, others=others, runs_dir=options.runs_dir, seed=options.seed, trust=options.trust
    )
    with _players_place(options) as play, _progress_bar() as progress:
        return tournament.hold(play, progress)


def _players_place(options: argparse.Namespace) -> contextlib.AbstractContextManager[PlayTournament]:
    """What plays the games."""
    if options.on == "ray":
        return import_module("rookery.cluster.ray_league").open_ray_tournament(options.address)
    from rookery.training.league.tournament import play_tournament

    return contextlib.nullcontext(play_tournament)


@contextlib.contextmanager
def _progress_bar() -> Iterator[Callable[[int, int], None]]:
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


def _draw(wish: str | None, run: RunDir, stored: list[StoredLeague], report: TournamentReport | None) -> Path | None:
    """Draw the plot. It may fail only if it was asked for."""
    from rookery.console import say
    from rookery.files import own_folder
    from rookery.training.league.league_plot import FILE, draw_league

    try:
        return draw_league(stored, report, Path(wish) if wish else own_folder(run.plots) / FILE)
    except (MissingExtra, OSError) as error:
        if wish:
            raise
        say(f"the plot was not drawn: {error}")
        return None


def _as_json(stored: list[StoredLeague], report: TournamentReport | None, plot: Path | None) -> dict[str, Any]:
    from rookery.training.league.league_table import stored_rows

    leagues = [{"run": league.run.name, "step": league.step, "agents": stored_rows(league)} for league in stored]
    return {
        "leagues": leagues,
        "tournament": None if report is None else report.as_json(),
        "plot": None if plot is None else str(plot),
    }


def _print(stored: list[StoredLeague], report: TournamentReport | None, plot: Path | None) -> None:
    from rookery.training.league.league_table import print_report, print_stored, stored_rows

    for league in stored:
        print_stored(league, stored_rows(league))
        print()
    if report is not None:
        print_report(report)
        print()
    if plot is not None:
        print(f"plot: {plot}")
