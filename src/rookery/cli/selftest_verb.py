"""The command `selftest`: does rookery keep its promises on this machine?"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from rookery.cli.parser import Commands, add_command
from rookery.console import meanwhile

if TYPE_CHECKING:
    from rookery.training.selftest.outcome import CheckOutcome


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    add_command(
        commands, "selftest", _selftest, "train, kill, resume and compare, to see that rookery works on this machine",
        "Takes about a minute, and leaves nothing behind. It checks the compiled code, worker processes, a small "
        "training run, SIGKILL of a worker and of a whole run, an exact resume, and the GPU if there is one. The exit "
        "status is 1 if a check fails. `rookery doctor` describes the machine without training.",
        "rookery selftest --json",
    )  # fmt: skip


def _selftest(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.selftest.selftest import run_selftest

    started = time.perf_counter()
    with meanwhile("checking; this takes about a minute"):
        report = run_selftest(_print_nothing if options.json else _print_outcome)
    if options.json:
        printing.emit_json(report.as_json())
    else:
        result = "passed" if report.ok else "FAILED"
        print(f"selftest {result}: {len(report.outcomes)} checks in {time.perf_counter() - started:.0f} s")
        if report.kept is not None:
            print(f"the runs are kept in {report.kept}, with the output of the last one in output.log")
    return 0 if report.ok else 1


def _print_nothing(outcome: CheckOutcome) -> None:
    """With --json, the result is printed at the end."""


def _print_outcome(outcome: CheckOutcome) -> None:
    print(f"{outcome.state:<8} {outcome.seconds:5.1f} s  {outcome.subject}: {outcome.text}")
    sys.stdout.flush()
