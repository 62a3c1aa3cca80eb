"""The command `rookery`: parses the command line and calls the verb. Each verb imports what it needs when it runs, so
that --help is quick."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import shutil
import sys
import textwrap
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from rookery.cli.failures import USAGE, failure_and_status
from rookery.cli.parser import Parser, add_command
from rookery.gate import allow_given
from rookery.version import __version__

GOOD, INTERRUPTED = 0, 130
# In the order of --help: each command is added by `add_COMMAND` of a module of this package.
GROUPS = {
    "training": {"train": "train_verb", "resume": "run_verbs", "clone": "exchange_verbs", "convert": "exchange_verbs"},
    "runs": {
        "runs": "run_verbs", "dashboard": "dashboard_verbs", "compare": "run_verbs", "plot": "run_verbs",
        "report": "dashboard_verbs",
    },
    "back in time": {
        "rewind": "rewind_verbs", "fork": "rewind_verbs", "diff": "rewind_verbs", "blame": "rewind_verbs",
    },
    "agents": {
        "eval": "eval_verbs", "watch": "eval_verbs", "play": "game_verbs", "league": "game_verbs",
        "export": "exchange_verbs", "import-sb3": "exchange_verbs", "dataset": "exchange_verbs",
        "serve": "deploy_verbs",
    },
    "studies": {"search": "search_verbs", "study": "search_verbs", "deploy": "deploy_verbs"},
    "worlds": {"check": "check_verbs", "profile": "machine_verbs"},
    "markets": {
        "data": "data_verbs", "audit": "trading_verbs", "backtest": "trading_verbs", "paper": "trading_verbs",
        "schedule": "deploy_verbs",
    },
    "this machine": {
        "doctor": "check_verbs", "selftest": "machine_verbs", "tune": "machine_verbs", "bench": "machine_verbs",
    },
}  # fmt: skip
COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}
FIRST = """\
first steps:
  rookery train CartPole-v1        train an agent
  rookery watch latest             record how it plays
  rookery train my_env.py:MyEnv    train on your own env
  rookery dashboard                see your runs in a browser
  rookery COMMAND --help           what a command does, with an example
"""


class RookeryParser(Parser):
    """The parser above all commands. Its help lists them in groups."""

    def format_help(self) -> str:
        groups = [self.format_usage(), textwrap.fill(self.description or "", _width()) + "\n", FIRST]
        (commands,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        summaries = {action.dest: str(action.help) for action in commands._choices_actions}
        own = {name: "" for name in summaries if name not in COMMANDS}  # of worlds
        for title, names in GROUPS.items():
            members = [*names, *own] if title == "worlds" else [*names]
            lines = [_entry(name, summaries[name]) for name in members if name in summaries]
            groups.append("\n".join([f"{title}:", *lines]) + "\n")
        options = [("-h, --help", "show this help and exit"), ("--version", "show the version and exit")]
        groups.append("\n".join(["options:", *(_entry(*option) for option in options)]) + "\n")
        return "\n".join(groups)


def _entry(name: str, summary: str) -> str:
    return textwrap.fill(summary, _width(), initial_indent=f"  {name:<12}", subsequent_indent=" " * 14)


def _width() -> int:
    return max(40, min(100, shutil.get_terminal_size().columns))


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
    words = [*words[1:2], "--help"] if words[:1] == ["help"] else words
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
    parser = RookeryParser(
        prog="rookery",
        description="Trains reinforcement-learning agents in many environments at once, as fast as the machine allows.",
    )
    parser.add_argument("--version", action="version", version=f"rookery {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    if command == "--version":
        return parser
    for name in [command] if command in COMMANDS else COMMANDS:
        module = import_module(f"rookery.cli.{COMMANDS[name]}")
        getattr(module, f"add_{name.replace('-', '_')}")(commands)
    if command in COMMANDS:
        return parser
    from rookery.lazy import load_object
    from rookery.worlds import registry

    for spec in registry.specs():  # a world may bring verbs of its own
        if spec.commands is not None:
            load_object(f"{spec.commands}:add_commands")(commands, add_command)
    return parser
