"""Starts the command `rookery` as another process, with the Python and the import paths of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

# A command that is left behind would run on without anybody to watch it: it ends when this process does.
CHILD = (
    "import sys; from rookery.engine.workers.child_process import die_with_parent; "
    "die_with_parent(int(sys.argv.pop(1))); from rookery.cli.main import main; sys.exit(main())"
)


def start_command(
    *words: str, variables: Mapping[str, str] | None = None, code: str = CHILD, **options: Any
) -> subprocess.Popen[bytes]:
    """Start `rookery WORDS...` in a process group of its own: Ctrl-C on the terminal does not reach it. By default it
    has no input.

    Args:
        variables: Environment variables to add.
        code: The Python code to run instead; its arguments are the pid of this process and `words`.
        options: Of `subprocess.Popen`, such as `stdout`.
    """
    paths = os.pathsep.join(filter(None, sys.path))  # the same as here, however this process was started
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(os.getpid()), *words],
        env={**os.environ, "PYTHONPATH": paths, **(variables or {})},
        process_group=0,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
        **{"stdin": subprocess.DEVNULL, **options},
    )
