"""The commands `play` and `league`: play a game, or act in a world by the keyboard; ratings and tournaments."""

from __future__ import annotations

import argparse

from rookery.cli.arguments import check_seed, runs_dir_argument, show, trust_argument
from rookery.cli.parser import Commands, add_command, takes
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
    takes(parser, "world WORLD", f"a game ({' or '.join(games)}), or a world as `rookery train` takes it")
    takes(parser, "--player WHO", "the left player (human)")
    takes(parser, "--opponent WHO", "the right player (agent)")
    runs_dir_argument(parser)
    takes(parser, "--mode", f"what is played: {', '.join(modes)} ({modes[0]})", choices=modes)
    takes(parser, "--fps N", "steps per second; fewer are easier (the world's own)", type=int)
    takes(parser, "--seed N", "seed of the games (random)", type=int)
    takes(parser, "--games N", "stop after this many games (play until Esc)", type=int)
    takes(parser, "--record FILE", "write the last 30 seconds to a .gif file")


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
    takes(parser, "names RUN", "the name of a run, its folder, or latest; can be several", nargs="+")
    takes(
        parser, "--games N", f"play a tournament with N games for each pair (without N: {USUAL_GAMES})", type=int,
        nargs="?", const=USUAL_GAMES,
    )  # fmt: skip
    takes(
        parser, "--with LIST", f"further players, separated by commas: weak, strong, none (stands still), "
        f"{', '.join(registry.agents())}, another run, a checkpoint's folder, file.py:Agent", dest="others", default="",
    )  # fmt: skip
    takes(parser, "--seed N", "seed of the games (derived from the run)", type=int)
    takes(parser, "--plot FILE", "the plot (plots/league.png in the run's folder)")
    takes(parser, "--on", "where the games are played", choices=("local", "ray"), default="local")
    takes(parser, "--address auto|HOST:PORT", "the Ray cluster; without, one is started here")
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
