"""The commands that look for problems: `check` in an env, `doctor` on the machine.

`check` runs the env in a process of its own, so that an env that crashes, exits or hangs is reported too. The two
processes share a folder: `task` contains the options, `doing` the call to the env that is under way, `trace` where
Python was when it crashed or was stopped, and `outcome` the result.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO

from rookery.cli.arguments import check_seed, env_arguments, show
from rookery.cli.failures import LIBRARIES, PACKAGE, failure_and_status
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import meanwhile, printable_lines
from rookery.errors import OptionError
from rookery.gate import follow_parent
from rookery.tools.world_report import WorldReport


def add_check(commands: Commands) -> None:
    parser = add_command(
        commands, "check", _check, "look for mistakes in an env before training on it",
        "Steps the env with random actions and checks spaces, values, determinism, buffers, pickling and speed. In a "
        "kernel world it also checks every array index and compares compiled code with plain Python. The exit status "
        "is 1 if there are problems. The env runs in a process of its own: if it crashes, exits or hangs, that is "
        "reported as well. In Python: rookery.testing.check_world.",
        "rookery check my_env.py:MyEnv --steps 1000",
    )  # fmt: skip
    env_arguments(parser)
    takes(parser, "--steps N", "number of steps", 200)
    takes(parser, "--seed N", "seed of the env and of the actions", 0)
    takes(parser, "--timeout SECONDS", "seconds after which a call to the env counts as hanging", 60.0)


def _check(options: argparse.Namespace) -> int:

    check_seed(options.seed)
    if not options.timeout > 0:
        raise OptionError(f"--timeout should be a positive number of seconds, got {options.timeout:g}")
    with meanwhile(f"checking {options.env}: {options.steps:,} steps, several times"):
        outcome = run_check(options)
    if (report := outcome.report) is None:
        print(outcome.error, file=sys.stderr)
    else:
        show(options, report.as_dict, lambda: print(printable_lines(report)))
    return outcome.status


def add_doctor(commands: Commands) -> None:
    parser = add_command(
        commands, "doctor", _doctor, "check this machine: cores, limits, memory, GPU, packages; or a cluster",
        "Says what is missing and how to install it. Starts a worker process with each start method; the exit status "
        "is 1 if none works. With --on ray it measures every node of a cluster, and says what will limit a run; the "
        "exit status is 1 if a node has other versions.",
        "rookery doctor --json",
    )  # fmt: skip
    takes(parser, "--on", "what to check", choices=("local", "ray"), default="local")
    takes(parser, "--address auto|HOST:PORT", "the Ray cluster; without, one is started here")


def _doctor(options: argparse.Namespace) -> int:
    from rookery.tools.doctor import doctor

    if options.on == "ray":
        return _cluster_doctor(options)
    if options.address:
        raise OptionError("--address is that of a Ray cluster: give --on ray as well")
    report = doctor()
    show(options, report.as_json, report.print)
    return 0 if report.ok else 1


def _cluster_doctor(options: argparse.Namespace) -> int:
    from rookery import printing

    ray_doctor = import_module("rookery.cluster.ray_doctor")
    nodes, here = ray_doctor.examine_cluster(options.address)
    if options.json:
        printing.emit_json(ray_doctor.report_json(nodes, here))
    else:
        ray_doctor.print_report(nodes, here)
    return 1 if ray_doctor.problems(nodes, here) else 0


POLL_SECONDS = 0.05
SLOW_FACTOR = 10  # a compilation may take this many times longer than a call to the env
RECORD = 400  # bytes of `doing`
SHOWN_LINES, SHOWN_WIDTH = 20, 200  # of what the env prints
MANY_LINES = 100
CHILD = "import sys; sys.path[:] = {path!r}; from rookery.cli.check_verbs import child; child({folder!r}, {parent})"


@dataclass
class EnvCheckOutcome:
    """The report, or the text of an error, with the exit status."""

    status: int
    report: WorldReport | None = None
    error: str = ""


def run_check(options: argparse.Namespace) -> EnvCheckOutcome:
    """Check an env in another process, and report how that ended if it did not end well."""
    with tempfile.TemporaryDirectory(prefix="rookery-check-") as name:
        folder = Path(name)
        task = {key: value for key, value in vars(options).items() if key != "run"}  # the function of the verb
        (folder / "task").write_text(json.dumps(task))
        (folder / "doing").write_bytes(b"")
        code = CHILD.format(path=sys.path, folder=name, parent=os.getpid())
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this process, which ends the other one
        )  # fmt: skip
        assert process.stdout is not None
        printed = _Printed(process.stdout)
        try:
            hung = _await(process, folder / "doing", options.timeout)
            outcome = _read(folder) or EnvCheckOutcome(1, _lost(options, folder, process.wait(), hung))
        finally:
            _end_group(process)
        printed.show(outcome.report)
        return outcome


def child(name: str, parent: int) -> None:
    """The other process."""
    from rookery.engine.workers.child_process import die_with_parent

    die_with_parent(parent)
    folder = Path(name)
    follow_parent()
    options = argparse.Namespace(**json.loads((folder / "task").read_text()))
    with (folder / "trace").open("wb") as trace, (folder / "doing").open("r+b", buffering=0) as doing:
        faulthandler.enable(trace)
        try:
            outcome = _checked(options, doing)
        except Exception as error:  # noqa: BLE001 - as the command itself reports it
            status, text = failure_and_status(options, error)
            outcome = EnvCheckOutcome(status, error=text)
        (folder / "outcome.new").write_text(json.dumps(asdict(outcome)))
        (folder / "outcome.new").replace(folder / "outcome")
        sys.stdout.flush()
        os._exit(0)  # whatever threads and handlers the env has left


def _checked(options: argparse.Namespace, doing: IO[bytes]) -> EnvCheckOutcome:
    from rookery.cli.arguments import named_env
    from rookery.testing import check_world
    from rookery.tools.world_report import CheckAborted, Watch

    def tell(text: str, slow: bool) -> None:
        os.lseek(doing.fileno(), 0, os.SEEK_SET)
        doing.write(f"{'slow' if slow else 'quick'} {text}".encode()[: RECORD - 1].ljust(RECORD))

    watch = Watch(tell, own_process=True)
    watch.now(f"importing {options.env}", slow=True)
    try:
        report = check_world(named_env(options), steps=options.steps, seed=options.seed, watch=watch)
    except (SystemExit, KeyboardInterrupt) as error:  # raised while its file was imported
        report = WorldReport(options.env, options.steps)
        with suppress(CheckAborted), watch.guard(report.problems.append):
            raise error
    return EnvCheckOutcome(0 if report.ok else 1, report)


def _await(process: subprocess.Popen[bytes], doing: Path, timeout: float) -> bool:
    """Wait for the end; returns whether a call took too long and the process was stopped."""
    known, since = b"", time.monotonic()
    while process.poll() is None:
        now = doing.read_bytes()
        if now != known:
            known, since = now, time.monotonic()
        elif time.monotonic() - since > timeout * (1 if known.startswith(b"quick") else SLOW_FACTOR):
            _stop(process)
            return True
        time.sleep(POLL_SECONDS)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End it so that `faulthandler` writes where it was, if the system can do that."""
    process.send_signal(signal.SIGABRT if os.name == "posix" else signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(2)
    process.kill()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and those that the env has started."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _read(folder: Path) -> EnvCheckOutcome | None:
    """What the other process has written, if it came that far."""
    try:
        found = json.loads((folder / "outcome").read_text())
    except (FileNotFoundError, ValueError):
        return None
    report = None if found["report"] is None else WorldReport(**found["report"])
    return EnvCheckOutcome(found["status"], report, found["error"])


def _lost(options: argparse.Namespace, folder: Path, status: int, hung: bool) -> WorldReport:
    """The report about an env that ended its process, or had to be stopped."""
    doing = (folder / "doing").read_bytes().decode(errors="replace").strip().partition(" ")[2]
    trace = (folder / "trace").read_text(errors="replace") if (folder / "trace").is_file() else ""
    if hung:
        what = f"did not end within {options.timeout:g} s (--timeout allows more)"
    elif status < 0:
        what = f"crashed: the process was ended by {_signal_name(-status)}"
    else:
        what = f"ended the process with exit status {status}, as os._exit() does"
    report = WorldReport(options.env, options.steps)
    report.problems.append(f"{doing or 'the start'} {what}{_last_line(trace)}")
    return report


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _last_line(trace: str) -> str:
    """The innermost line of the user's code that `faulthandler` found in the main thread, the last one it writes."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace.rpartition("hread 0x")[2])
    own = [frame for frame in frames if not any(part in frame[0] for part in (PACKAGE, *LIBRARIES))]
    file, line = next(iter(own or frames), ("", ""))
    return f" ({Path(file).name}:{line})" if file else ""


class _Printed:
    """What the env prints: the beginning is kept, the rest only counted, however much it is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept, self._lines = b"", 0
        self._thread = threading.Thread(target=self._drain, args=(stream,), name="rookery printed", daemon=True)
        self._thread.start()

    def _drain(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), 1 << 16):
                self._lines += chunk.count(b"\n")
                self._kept += chunk[: max(0, SHOWN_LINES * 4096 - len(self._kept))]

    def show(self, report: WorldReport | None) -> None:
        """Print it to standard error; much of it becomes advice."""
        self._thread.join(2)
        lines = self._kept.decode(errors="replace").splitlines()[:SHOWN_LINES]
        for line in lines:
            print(line if len(line) <= SHOWN_WIDTH else f"{line[:SHOWN_WIDTH]} ...", file=sys.stderr)
        if self._lines > len(lines):
            print(f"... and {self._lines - len(lines):,} more lines", file=sys.stderr)
        if report is not None and self._lines > MANY_LINES:
            report.advice.append(f"it printed {self._lines:,} lines while it was checked: printing takes time too")
