"""The command `watch`: record a video of a trained agent, or show it in a window."""

from __future__ import annotations

import argparse
from pathlib import Path

from rookery.cli.arguments import (
    best_argument,
    check_file,
    check_positive,
    check_seed,
    run_arguments,
    shipped_help,
    trust_argument,
)
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, check_run_world, find_run_or_shipped, print_path, stdout_to_stderr
from rookery.console import meanwhile, say
from rookery.errors import OptionError
from rookery.training import check_installed

VIDEO_FILES = (".mp4", ".gif", ".webp")


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "watch", _watch, "record a video of a trained agent",
        "With --live it opens a window instead.",
        "rookery watch latest --episodes 3 --out cartpole.gif",
    )  # fmt: skip
    run_arguments(parser, f"; or {shipped_help()}")
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="number of episodes (up to 5, until the video lasts 10 seconds)"
    )
    parser.add_argument(
        "--out", metavar="FILE",
        help="the video file, .mp4, .gif or .webp (videos/step-N.mp4 in the run's folder; for an agent that "
        "comes with rookery: NAME.mp4 in the current folder)",
    )  # fmt: skip
    parser.add_argument(
        "--opponent", metavar="WHO",
        help=f"the opponent, in a game for two: weak, strong, none (stands still), {shipped_help()}, a run, a "
        "checkpoint's folder, or my_agent.py:Agent (the opponent of the training, if there was only one; else strong)",
    )  # fmt: skip
    parser.add_argument("--live", action="store_true", help="show it in a window instead of writing a file")
    parser.add_argument(
        "--grid", type=int, nargs="?", const=True, default=False, metavar="N",
        help="show N envs at once, each with its own --episodes (without N: as many as the run trained on, up to 16)",
    )  # fmt: skip
    parser.add_argument("--fps", type=int, metavar="N", help="frames per second (as the world declares)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the env (as in the run's evaluations)")
    best_argument(parser)
    trust_argument(parser)


def _watch(options: argparse.Namespace) -> int:
    check_positive(options, "episodes", "fps")
    if options.out and Path(options.out).suffix.lower() not in VIDEO_FILES:
        raise OptionError(f"out should name a file ending in .mp4, .gif or .webp, got {options.out!r}")
    if options.out and options.live:
        raise OptionError("give --out for a file or --live for a window, not both")
    check_seed(options.seed)
    if options.out:
        check_file(options.out)
    found = find_run_or_shipped(options)
    trusted = check_run_world(found, options)
    check_installed()
    say(f"{'showing' if options.live else 'recording'} {options.name if found is None else found.name}")
    with meanwhile(LOADING):
        from rookery.training.show.watch import watch

    with stdout_to_stderr(options.json):
        path = watch(
            options.name if found is None else str(found.path), options.runs_dir, episodes=options.episodes,
            out=options.out, live=options.live, fps=options.fps, best=options.best, seed=options.seed,
            opponent=options.opponent, grid=options.grid, **trusted,
        )  # fmt: skip
    return print_path(path, options.json)
