"""The commands `play` and `league`: play a game, or act in a world by the keyboard; ratings and tournaments."""

from __future__ import annotations

import argparse

from rookery.cli.arguments import check_seed, runs_dir_argument, show, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.training import check_installed
from rookery.worlds import registry


def add_play(commands: Commands) -> None:
    games = registry.games()
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
    from rookery.training.show.play import play

    names = ("mode", "fps", "seed", "games", "record", "runs_dir")
    chosen = {name: getattr(options, name) for name in names}
    tally = play(options.world, options.player, options.opponent, **chosen)
    return show(options, tally.as_json, lambda: print(tally))


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
    check_seed(options.seed)
    if options.games is not None:
        check_installed()
    from rookery.training.league.shown_league import league

    names = ("games", "seed", "plot", "on", "address", "runs_dir", "trust")
    others = [who.strip() for who in options.others.split(",") if who.strip()]
    shown = league(*options.names, others=others, **{name: getattr(options, name) for name in names})
    return show(options, shown.as_json, shown.print)
