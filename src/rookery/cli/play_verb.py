"""The command `play`: a person plays a game, or watches two agents play it; or acts in a world by the keyboard."""

from __future__ import annotations

import argparse
from typing import Any

from rookery.cli.arguments import check_seed, runs_dir_argument
from rookery.cli.parser import Commands, add_command
from rookery.errors import OptionError
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
    from rookery import printing

    check_seed(options.seed)
    tally = _play_game(options) if options.world in _games() else _play_by_hand(options)
    if options.json:
        printing.emit_json(tally.as_json())
    else:
        print(tally)
    return 0


def _play_game(options: argparse.Namespace) -> Any:
    from rookery.training.players.numpy_opponents import find_opponent

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
