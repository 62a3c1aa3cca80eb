"""The commands `play` and `league`: play a game, or act in a world by the keyboard; ratings and tournaments."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import check_seed, runs_dir_argument, show, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.errors import MissingExtra, OptionError
from rookery.files import check_file
from rookery.training import check_installed
from rookery.worlds import registry
from rookery.worlds.world_spec import PlayableGame, load_object

if TYPE_CHECKING:
    from rookery.training.league.archive import StoredLeague
    from rookery.training.league.tournament import PlayTournament
    from rookery.training.league.tournament_report import TournamentReport
    from rookery.training.storage.run_dir import RunDir


def _games() -> dict[str, PlayableGame]:
    return {spec.name: spec.game for spec in registry.specs() if spec.game is not None}


def add_play(commands: Commands) -> None:
    games = _games()
    keys = " ".join(game.keys if len(games) == 1 else f"{name}: {game.keys}" for name, game in games.items())
    modes = list(dict.fromkeys(mode for game in games.values() for mode in game.modes))
    parser = add_command(
        commands, "play", _play, "play a game yourself, or watch others play",
        "Opens a window. A player is human, a script (weak or strong), agent (the one that comes with rookery), a run, "
        f"a checkpoint's folder, or your own agent with act(obs), such as my_agent.py:Agent. {keys} In any other "
        "world whose action is a vector of numbers, you act by the keyboard: a column of letters for each number; "
        "where it is one of at most ten choices, by the digits.",
        f"rookery play {next(iter(games))} --opponent weak",
    )  # fmt: skip
    parser.add_argument(
        "world", metavar="WORLD", help=f"a game ({' or '.join(games)}), or a world as `rookery train` takes it"
    )
    parser.add_argument("--player", metavar="WHO", help="the left player (human)")
    parser.add_argument("--opponent", metavar="WHO", help="the right player (agent)")
    runs_dir_argument(parser)
    parser.add_argument(
        "--mode", choices=modes, help=f"what is played: {', '.join(modes)} ({modes[0]})",
    )  # fmt: skip
    parser.add_argument("--fps", type=int, metavar="N", help="steps per second; fewer are easier (the world's own)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the games (random)")
    parser.add_argument("--games", type=int, metavar="N", help="stop after this many games (play until Esc)")
    parser.add_argument("--record", metavar="FILE", help="write the last 30 seconds to a .gif file")


def _play(options: argparse.Namespace) -> int:

    check_seed(options.seed)
    tally = _play_game(options) if options.world in _games() else _play_by_hand(options)
    return show(options, tally.as_json, lambda: print(tally))


def _play_game(options: argparse.Namespace) -> Any:
    from rookery.training.players.file_player import find_opponent

    game = _games()[options.world]
    player, opponent = (
        who if who in game.players else find_opponent(who, options.runs_dir, registry.get(options.world))
        for who in (options.player or "human", options.opponent or "agent")
    )
    play = load_object(game.function)
    return play(
        player, opponent, options.mode or game.modes[0], options.fps or 50, options.seed, options.games, options.record
    )


def _play_by_hand(options: argparse.Namespace) -> Any:
    from rookery.training.resolve.world_choice import find
    from rookery.training.show.by_hand import play_by_hand

    for name in ("player", "opponent", "mode"):
        if getattr(options, name) is not None:
            raise OptionError(f"{options.world} is played alone: --{name} is for {' and '.join(_games())}")
    return play_by_hand(find(options.world), options.fps, options.seed, options.games, options.record)


USUAL_GAMES = 50


def add_league(commands: Commands) -> None:
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
    _check_league(options)
    from rookery.training.league.archive import stored_league
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
    plot = _draw_league(options.plot, runs[0], stored, report)
    return show(options, lambda: _as_json(stored, report, plot), lambda: _print_league(stored, report, plot))


def _check_league(options: argparse.Namespace) -> None:
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
        from rookery.training.league.league_table import check_picture_file

        check_file(options.plot)
        check_picture_file(options.plot)


def _play_tournament(options: argparse.Namespace, runs: list[RunDir]) -> TournamentReport:
    from rookery.training.league.tournament import enter_tournament

    others = [who.strip() for who in options.others.split(",") if who.strip()]
    tournament = enter_tournament(
        runs, options.games, others=others, runs_dir=options.runs_dir, seed=options.seed, trust=options.trust
    )
    with _players_place(options) as play, _games_bar() as progress:
        return tournament.hold(play, progress)


def _players_place(options: argparse.Namespace) -> contextlib.AbstractContextManager[PlayTournament]:
    """What plays the games."""
    if options.on == "ray":
        return import_module("rookery.cluster.ray_league").open_ray_tournament(options.address)
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


def _draw_league(
    wish: str | None, run: RunDir, stored: list[StoredLeague], report: TournamentReport | None
) -> Path | None:
    """Draw the plot. It may fail only if it was asked for."""
    from rookery.console import say
    from rookery.files import own_folder
    from rookery.training.league.league_table import PLOT_FILE, draw_league

    try:
        return draw_league(stored, report, Path(wish) if wish else own_folder(run.plots) / PLOT_FILE)
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


def _print_league(stored: list[StoredLeague], report: TournamentReport | None, plot: Path | None) -> None:
    from rookery.training.league.league_table import print_report, print_stored, stored_rows

    for league in stored:
        print_stored(league, stored_rows(league))
        print()
    if report is not None:
        print_report(report)
        print()
    if plot is not None:
        print(f"plot: {plot}")
