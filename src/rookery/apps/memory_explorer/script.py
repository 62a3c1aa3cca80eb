"""The explorer driven by a script, or by lines from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from rookery.apps.memory_explorer.commands import Commands, Quit, split_script
from rookery.errors import OptionError, RookeryError


def follow(commands: Commands, lines: Iterable[str], out: TextIO | None = None) -> None:
    """Execute the commands in order, and print each with its output; the first that fails ends the script."""
    out, count = out or sys.stdout, 0
    for line in lines:
        for command in split_script(line):
            count += 1
            print(f"> {command}", file=out, flush=True)
            try:
                answer = commands.do(command)
            except Quit:
                return
            except RookeryError as error:
                raise OptionError(f"command {count}: {error}") from error
            for text in answer:
                print(text, file=out, flush=True)
