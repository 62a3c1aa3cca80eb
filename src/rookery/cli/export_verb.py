"""The command `export`: write a trained agent as ONNX, as one Python file, for Stable-Baselines3, or as a card."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.cli.arguments import best_argument, check_file, run_arguments, shipped_help, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, find_run_or_shipped, print_path, stdout_to_stderr
from rookery.console import meanwhile, say
from rookery.errors import OptionError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "export", _export, "write a trained agent to a file for other programs",
        "The file includes the normalisation of observations and the action masks. Its actions are compared with those "
        "of the agent before the command ends.",
        "rookery export latest --standalone agent.py",
    )  # fmt: skip
    run_arguments(parser, f"; or {shipped_help()}, with --standalone")
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--onnx", nargs="?", const="", metavar="FILE",
        help="write ONNX, to this file (policy.onnx in the run's folder); this is the default format",
    )  # fmt: skip
    formats.add_argument(
        "--standalone", nargs="?", const="", metavar="FILE",
        help="write one Python file with a class Agent that needs only NumPy (agent.py in the run's folder; for "
        "an agent that comes with rookery: NAME_agent.py in the current folder)",
    )  # fmt: skip
    formats.add_argument(
        "--sb3", nargs="?", const="", metavar="FILE",
        help="write a model that Stable-Baselines3 loads (sb3_model.zip in the run's folder)",
    )  # fmt: skip
    formats.add_argument(
        "--card", nargs="?", const="", metavar="FILE",
        help="write an agent card in Markdown, as Hugging Face shows it (README.md in the run's folder)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    best_argument(parser)
    trust_argument(parser)


def _export(options: argparse.Namespace) -> int:
    if file := options.onnx or options.standalone or options.sb3 or options.card:
        check_file(file)
    found = find_run_or_shipped(options)
    if options.standalone is not None:
        path = _export_standalone(found, options)
    elif found is None:
        raise OptionError(f"the agent {options.name} that comes with rookery can only be exported with --standalone")
    elif options.sb3 is not None:
        path = _export_sb3(found, options)
    elif options.card is not None:
        path = _export_card(found, options)
    else:
        path = _export_onnx(found, options)
    return print_path(path, options.json)


def _export_onnx(found: RunDir, options: argparse.Namespace) -> Path:
    check_installed()
    say(f"exporting {found.name} to ONNX, which takes some seconds")
    with meanwhile(LOADING):
        from rookery.training.export.onnx_file import export_onnx

    trusted = {"trust": True} if options.trust else {}
    with stdout_to_stderr(options.json):
        return export_onnx(
            str(found.path),
            options.runs_dir,
            out=options.onnx or None,
            best=options.best,
            **_overwriting(options),
            **trusted,
        )


def _export_standalone(found: RunDir | None, options: argparse.Namespace) -> Path:
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.export.standalone_file import export_standalone

    run = options.name if found is None else str(found.path)
    with stdout_to_stderr(options.json):
        return export_standalone(
            run, options.runs_dir, out=options.standalone or None, best=options.best, **_overwriting(options)
        )


def _export_sb3(found: RunDir, options: argparse.Namespace) -> Path:
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.export.sb3_file import export_sb3

    trusted = {"trust": True} if options.trust else {}
    with stdout_to_stderr(options.json):
        path, *others = export_sb3(
            str(found.path), options.runs_dir, options.sb3 or None, options.best, **_overwriting(options), **trusted
        )
    for other in others:
        say(f"{other} has the normalisation of observations: VecNormalize.load({str(other)!r}, vec_env)")
    return path


def _export_card(found: RunDir, options: argparse.Namespace) -> Path:
    from rookery.training.export.agent_card import export_card

    return export_card(found, options.card or None, **_overwriting(options))


def _overwriting(options: argparse.Namespace) -> dict[str, bool]:
    return {"overwrite": True} if options.force else {}
