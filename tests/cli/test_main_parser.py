"""A command that has a module of its own is parsed without the others."""

from __future__ import annotations

import argparse
import subprocess
import sys

from rookery.cli.main import COMMANDS, build_parser


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    assert parser._subparsers is not None
    return parser._subparsers._group_actions[0].choices  # type: ignore[return-value]


def test_a_command_alone_is_that_of_all() -> None:
    every = commands_of(build_parser())
    assert [*every][: len(COMMANDS)] == [*COMMANDS]
    for name in COMMANDS:
        alone = commands_of(build_parser(name))
        assert [*alone] == [name] and alone[name].format_help() == every[name].format_help()
    for name in ("gameboy", "no such command", "", "--help"):
        assert [*commands_of(build_parser(name))] == [*every]


def test_the_modules_of_other_commands_are_not_imported() -> None:
    code = "import sys; from rookery.cli.main import main; main(['report'])\n"
    code += (
        "print([name for name in ('rookery.cli.train_verb', 'rookery.learners.learner_spec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and "arguments are required: RUN" in done.stderr
