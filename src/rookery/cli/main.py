"""The command `rookery`: parses the command line and calls the verb. Each verb imports what it needs when it runs, so
that --help is quick."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from rookery.cli.failures import USAGE, failure_and_status
from rookery.cli.parser import Parser, add_command
from rookery.gate import allow_given
from rookery.version import __version__

GOOD, INTERRUPTED = 0, 130
COMMANDS = {  # in the order of --help: each is added by `add_COMMAND` of a module of this package
    "train": "train_verb", "resume": "run_verbs", "runs": "run_verbs", "dashboard": "dashboard_verbs",
    "compare": "run_verbs", "plot": "run_verbs", "report": "dashboard_verbs", "eval": "eval_verbs",
    "backtest": "trading_verbs", "watch": "eval_verbs", "export": "exchange_verbs", "import-sb3": "exchange_verbs",
    "dataset": "exchange_verbs", "clone": "exchange_verbs", "league": "game_verbs", "play": "game_verbs",
    "search": "search_verbs", "study": "search_verbs", "deploy": "deploy_verbs", "serve": "deploy_verbs",
    "paper": "trading_verbs", "schedule": "deploy_verbs", "data": "data_verbs", "check": "check_verbs",
    "doctor": "check_verbs", "selftest": "machine_verbs", "tune": "machine_verbs", "profile": "machine_verbs",
    "bench": "machine_verbs", "convert": "exchange_verbs",
}  # fmt: skip


def run() -> NoReturn:
    """The command as a process of its own. Imports make some 300,000 objects that stay: walking through them again and
    again, and taking them apart at the end, takes a second of a short command."""
    gc.set_threshold(10_000, 20, 50)
    status = main()
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as an exit does
    atexit._run_exitfuncs()
    try:
        print(end="", flush=True)
        print(end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a full disk, a reader that has left, or a closed stream: Python reports it
        sys.exit(status)
    os._exit(status)


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
    """The parser of the complete command line; if `command` is a command, of that one alone: the others take a third of
    the time until it starts."""
    parser = Parser(
        prog="rookery",
        description="Trains reinforcement-learning agents in many environments at once, as fast as the machine allows.",
        epilog="`rookery train CartPole-v1` is a first run. `rookery COMMAND --help` describes a command.",
    )
    parser.add_argument("--version", action="version", version=f"rookery {__version__}")
    if command == "--version":
        return parser
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    for name in [command] if command in COMMANDS else COMMANDS:
        module = import_module(f"rookery.cli.{COMMANDS[name]}")
        getattr(module, f"add_{name.replace('-', '_')}")(commands)
    if command in COMMANDS:
        return parser
    from rookery.worlds import registry
    from rookery.worlds.world_spec import load_object

    for spec in registry.specs():  # a world may bring verbs of its own
        if spec.commands is not None:
            load_object(f"{spec.commands}:add_commands")(commands, add_command)
    return parser
