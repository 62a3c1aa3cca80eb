"""The command `convert`: translate configuration files between formats."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rookery.cli.parser import Commands, add_command
from rookery.errors import OptionError


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "convert", _convert, "translate a curriculum file of an older trainer to TOML, or back",
        "`rookery train` accepts such JSON files as they are. TOML has more options, such as phases that end once "
        "enough games are won. TOML is translated back to JSON if the JSON format has all of its options.",
        "rookery convert curriculum_base.json curriculum.toml",
    )  # fmt: skip
    parser.add_argument("source", metavar="FILE", help="a config file (.json, .toml or .yaml)")
    parser.add_argument(
        "target", metavar="NEW_FILE", nargs="?", help="the file to write, .toml or .json (standard output)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def _convert(options: argparse.Namespace) -> int:
    from rookery.config.convert import converted, target_format
    from rookery.files import replace_file

    source, target = Path(options.source), Path(options.target) if options.target else None
    wanted = target_format(source, target)
    if target is not None and os.path.lexists(target) and not options.force:
        raise OptionError(f"{target} exists already; --force overwrites it")
    text = converted(source, wanted)
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
