"""The command `convert`: configuration files from one kind to another."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rookery.cli.run_verbs import Command, Commands
from rookery.errors import OptionError


def add_commands(commands: Commands, command: Command) -> None:
    """Add it to the parser."""
    parser = command(
        commands, "convert", _convert, "turn an older trainer's curriculum file into TOML, or back",
        "Such files can be trained on as they are. Written as TOML they can say more, such as phases that end when "
        "enough games are won. The way back works for what the old form can say.",
        "rookery convert curriculum_base.json curriculum.toml",
    )  # fmt: skip
    parser.add_argument("source", metavar="FILE", help="a config file (.json, .toml or .yaml)")
    parser.add_argument(
        "target", metavar="NEW_FILE", nargs="?", help="the file to write, .toml or .json (left out, it is printed)"
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there already")


def _convert(options: argparse.Namespace) -> int:
    from rookery.config.convert import converted, kind_of
    from rookery.files import replace_file

    source, target = Path(options.source), Path(options.target) if options.target else None
    kind = kind_of(source, target)
    if target is not None and os.path.lexists(target) and not options.force:
        raise OptionError(f"{target} is there already; --force writes over it")
    text = converted(source, kind)
    if target is not None:
        try:
            replace_file(target, [text.encode()])
        except OSError as error:
            raise OptionError(f"{target} cannot be written ({error.strerror or error})") from None
    if options.json:
        from rookery import printing

        printing.emit_json({"path": None if target is None else str(target), "text": text})
    else:
        print(text if target is None else target, end="" if target is None else "\n")
    return 0
