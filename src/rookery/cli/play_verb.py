"""The command `play`: a person plays a game, or watches two agents play it."""

from __future__ import annotations

import argparse

from rookery.cli.arguments import check_seed, runs_dir_argument
from rookery.cli.parser import Commands, add_command
from rookery.worlds import registry
from rookery.worlds.world_spec import PlayableGame, load_object


def _games() -> dict[str, PlayableGame]:
    return {spec.name: spec.game for spec in registry.specs() if spec.game is not None}


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    games = _games()
    keys = " ".join(game.keys if len(games) == 1 else f"{name}: {game.keys}" for name, game in games.items())
    modes = list(dict.fromkeys(mode for game in games.values() for mode in game.modes))
    parser = add_command(
        commands, "play", _play, "play a game yourself, or watch others play",
        "Opens a window. A player is human, a script (weak or strong), agent (the one that comes with rookery), a run, "
        f"a checkpoint's folder, or your own agent with act(obs), such as my_agent.py:Agent. {keys}",
        f"rookery play {next(iter(games))} --opponent weak",
    )  # fmt: skip
    parser.add_argument("world", metavar="WORLD", choices=list(games), help=f"the game: {' or '.join(games)}")
    parser.add_argument("--player", metavar="WHO", default="human", help="the left player (human)")
    parser.add_argument("--opponent", metavar="WHO", default="agent", help="the right player (agent)")
    runs_dir_argument(parser)
    parser.add_argument(
        "--mode", choices=modes, default=modes[0], help=f"what is played: {', '.join(modes)} ({modes[0]})",
    )  # fmt: skip
    parser.add_argument("--fps", type=int, default=50, metavar="N", help="steps per second; fewer are easier (50)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the games (random)")
    parser.add_argument("--games", type=int, metavar="N", help="stop after this many games (play until Esc)")
    parser.add_argument("--record", metavar="FILE", help="write the last 30 seconds to a .gif file")


def _play(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.players.numpy_opponents import find_opponent

    check_seed(options.seed)
    game = _games()[options.world]
    player, opponent = (
        who if who in game.players else find_opponent(who, options.runs_dir, registry.get(options.world))
        for who in (options.player, options.opponent)
    )
    play = load_object(game.function)
    tally = play(player, opponent, options.mode, options.fps, options.seed, options.games, options.record)
    if options.json:
        printing.emit_json(tally.as_json())
    else:
        print(tally)
    return 0
