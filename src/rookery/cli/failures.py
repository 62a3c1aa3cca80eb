"""What is printed when a command fails: the error, where the user's own code raised it, and what to do next."""

from __future__ import annotations

import argparse
import shlex
import traceback
from collections.abc import Iterator
from pathlib import Path

from rookery.console import printable_lines
from rookery.errors import BadValue, EnvError, RestartLimit, RookeryError, WorkerDied
from rookery.extras import missing_package

BAD, USAGE = 1, 2  # exit status: of a bad result or a failed env, and of bad input
ENV_FAILED = (BadValue, EnvError, RestartLimit, WorkerDied)
VERBS_THAT_STEP = ("train", "tune", "profile", "bench")  # those that step an env of the user's
TRACEBACK_LINES = 9
# Frames in these files say nothing about the user's own code.
PACKAGE = str(Path(__file__).parents[1])
OWN_FRAMES = (f'  File "{PACKAGE}', '  File "<frozen ')
LIBRARIES = ("site-packages", "dist-packages", str(Path(traceback.__file__).parent))


def failure_and_status(options: argparse.Namespace, error: Exception) -> tuple[int, str]:
    """The exit status of a command that raised an error, and what it prints about it."""
    if isinstance(error, ENV_FAILED):
        return BAD, f"rookery: {printable_lines(error).rstrip()}{hint(options, error)}"
    if isinstance(error, RookeryError):
        return USAGE, f"rookery: {printable_lines(error)}"
    if is_about_a_file(error):
        file, reason = getattr(error, "filename", None), getattr(error, "strerror", None)
        return USAGE, f"rookery: {printable_lines(f'{file}: {reason}' if file is not None and reason else error)}"
    if text := missing_text(error):
        return USAGE, f"rookery: {printable_lines(text)}"
    return BAD, f"{printable_lines(failure_text(error))}{hint(options, error)}"


def hint(options: argparse.Namespace, error: Exception) -> str:
    """The command that looks for mistakes in the user's own env, if that is what failed."""
    if isinstance(error, (SyntaxError, ImportError)):  # the traceback shows the line already
        return ""
    world = getattr(options, "env", None) or getattr(options, "world", None) or ""
    if getattr(options, "command", None) not in VERBS_THAT_STEP or ".py:" not in world:
        return ""
    return f"\n`rookery check {shlex.quote(world)}` looks for mistakes in it"


def is_about_a_file(error: Exception) -> bool:
    """Whether the error means that a named file or folder cannot be used, and no code of the user's was involved."""
    if not isinstance(error, OSError) or getattr(error, "__notes__", []):
        return False
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    known = (PACKAGE, *LIBRARIES)
    return all(not Path(file).is_absolute() or any(part in file for part in known) for file in files)


def missing_text(error: Exception) -> str:
    """One line, if the user's code imports a package that is not installed; else ""."""
    missing = missing_package(error)
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    users = [file for file in frames if Path(file).is_absolute() and not file.startswith(PACKAGE)]
    own = [file for file in users if not any(part in file for part in LIBRARIES)]
    return f"{Path(own[-1]).name}: {missing}" if missing and own else missing


def failure_text(error: Exception) -> str:
    """One line, then the end of the traceback: the worker's traceback if there is one."""
    notes = getattr(error, "__notes__", [])
    raised_by = next((note.removeprefix("raised by ") for note in notes if note.startswith("raised by ")), None)
    what = f"{type(error).__name__}: {error}"
    heading = f"rookery: {raised_by} raised {what}" if raised_by else f"rookery: {what}"
    remote = next((note.partition("\n")[2] for note in notes if note.startswith("traceback in the worker")), None)
    lines = (remote or "".join(traceback.format_exception(error))).rstrip().splitlines()
    users = list(_without_own_frames(lines))
    shown = users if any(line.startswith("  File ") for line in users) else lines
    return "\n".join([heading, *(f"    {line}" for line in shown[-TRACEBACK_LINES:])])


def _without_own_frames(lines: list[str]) -> Iterator[str]:
    """A traceback's lines without the frames of rookery and of Python's importer."""
    skip = False
    for line in lines:
        if line.startswith("  File "):
            skip = line.startswith(OWN_FRAMES)
        elif not line.startswith("    "):  # the exception, or the beginning of another traceback
            skip = False
        if not skip:
            yield line
