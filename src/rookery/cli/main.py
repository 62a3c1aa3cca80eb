"""The command `rookery`: parses the command line and calls the verb. Each verb imports what it needs when it runs, so
that --help is quick."""

from __future__ import annotations

import argparse
import gc
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from rookery.cli.failures import USAGE, failure_and_status
from rookery.cli.parser import Parser, add_command
from rookery.gate import allow_given
from rookery.version import __version__

GOOD, INTERRUPTED = 0, 130
VERBS = (  # modules of this package, in the order of --help
    "train_verb", "run_verbs", "dashboard_verb", "compare_verbs", "report_verb", "eval_verb", "backtest_verb",
    "watch_verb", "export_verb", "import_sb3_verb", "minari_verbs", "league_verbs", "play_verb", "search_verb",
    "study_verb", "deploy_verb", "serve_verb", "paper_verb", "schedule_verb", "data_verbs", "check_verbs",
    "selftest_verb", "speed_verbs", "convert_verb",
)  # fmt: skip


def run() -> NoReturn:
    """The command as a process of its own. Imports make some 300,000 objects that stay: walking through them again and
    again, and once more at the end, takes a second of a short command."""
    gc.set_threshold(10_000, 20, 50)
    status = main()
    gc.freeze()
    sys.exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status: 0 success, 1 bad result or failed env, 2 bad input, 130 interrupted."""
    words = sys.argv[1:] if argv is None else list(argv)
    parser, options = build_parser(words[0] if words else ""), argparse.Namespace()
    try:
        _allow(words)
        options = parser.parse_args(words)
        if options.command is None:
            parser.print_help(sys.stderr)
            return USAGE
        return options.run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        sys.stderr.close()
        return GOOD
    except Exception as error:  # noqa: BLE001 - also raised by the user's env: they need its traceback, not ours
        status, text = failure_and_status(options, error)
        print(text, file=sys.stderr)
        return status


def _allow(words: Sequence[str]) -> None:
    """Whatever the user types may be imported or reached."""
    parts = [part for word in words for part in re.split("[=,]", word)]
    allow_given([*words, *parts])


def build_parser(command: str = "") -> argparse.ArgumentParser:
    """The parser of the complete command line; if a module has the name of a command, of that one alone: the others
    take a third of the time until it starts."""
    parser = Parser(
        prog="rookery",
        description="Trains reinforcement-learning agents in many environments at once, as fast as the machine allows.",
        epilog="`rookery train CartPole-v1` is a first run. `rookery COMMAND --help` describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"rookery {__version__}")
    if command == "--version":
        return parser
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    own = f"{command}_verb"
    for name in [own] if own in VERBS else VERBS:
        import_module(f"rookery.cli.{name}").add_commands(commands)
    if own in VERBS:
        return parser
    from rookery.worlds import registry
    from rookery.worlds.world_spec import load_object

    for spec in registry.specs():  # a world may bring verbs of its own
        if spec.commands is not None:
            load_object(f"{spec.commands}:add_commands")(commands, add_command)
    return parser
