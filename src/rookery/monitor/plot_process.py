"""A run's plot in a process of its own, which imports Matplotlib while the command imports torch: each takes seconds of
one core."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from rookery.console import say
from rookery.monitor.plots import draw_learning, learning_plot, plot_run

IDLE_SECONDS = 60.0  # after which the process ends: in a longer run the import at its end is not noticed
CODE = "from rookery.monitor.plot_process import serve; serve()"
_ready: list[subprocess.Popen[str]] = []  # the process, while there is one


@contextmanager
def imported_early(wanted: bool = True) -> Iterator[None]:
    """Within, another process imports Matplotlib, if that is `wanted` and a core would be idle until torch is here."""
    if wanted and _pays():
        with suppress(OSError):  # there are too many processes
            _ready.append(_start())
    try:
        yield
    finally:
        while _ready:
            _end(_ready.pop())


def _pays() -> bool:
    # On Windows and macOS nothing says which cores a process may use; on Windows, nor whether a pipe can be read.
    has_idle_core = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
    is_start = not {"torch", "matplotlib"} & sys.modules.keys()
    return has_idle_core and is_start and find_spec("matplotlib") is not None


def _start() -> subprocess.Popen[str]:
    paths = os.pathsep.join(filter(None, sys.path))  # the same as here, however this process was started
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CODE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": paths},
        process_group=0,  # Ctrl-C on the terminal leaves it alone: a plot that was begun is drawn
    )  # fmt: skip


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):  # it has ended by itself
        process.communicate()


def plot_run_early(folder: str | Path) -> Path | None:
    """The same as `plot_run`, by the process that has imported Matplotlib, if there is one."""
    answer = _ask(os.path.abspath(folder)) if _ready else ""
    if not answer:
        return plot_run(folder)
    error = answer.strip()
    if error != "drawn":
        say(f"the plot was not drawn: {error}")
        return None
    return learning_plot(folder)


def _ask(folder: str) -> str:
    """The process's answer; "" if it has ended."""
    process = _ready[0]
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(f"{folder}\n")
        process.stdin.flush()
        return process.stdout.readline()
    except (OSError, ValueError):  # such as a name that is not valid text
        return ""


def serve() -> None:
    """In the process: import what a plot needs, and draw the runs whose folders are read from standard input."""
    import matplotlib.backends.backend_agg
    import matplotlib.figure
    import matplotlib.ticker  # noqa: F401

    while select.select([sys.stdin], [], [], IDLE_SECONDS)[0] and (line := sys.stdin.readline()):
        try:
            draw_learning(line.removesuffix("\n"))
            answer = "drawn"
        except Exception as error:  # noqa: BLE001 - it is reported
            answer = " ".join(str(error or type(error).__name__).split())
        print(answer, flush=True)
    os._exit(0)  # without taking all of Matplotlib apart
