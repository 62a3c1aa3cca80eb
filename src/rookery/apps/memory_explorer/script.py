"""Exploring by a script, or by lines that come through a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from rookery.apps.memory_explorer.commands import Commands, Quit, split_script
from rookery.errors import OptionError, RookeryError


def follow(commands: Commands, lines: Iterable[str], out: TextIO | None = None) -> None:
    """Do one command after the other, and tell each with its answer; the first that fails ends it."""
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
            for told in answer:
                print(told, file=out, flush=True)
