"""The commands that look for problems: `check` in an env, `doctor` on the machine."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from rookery.cli.arguments import check_seed, env_arguments
from rookery.cli.parser import Commands, add_command
from rookery.console import meanwhile, printable_lines
from rookery.errors import OptionError


def add_commands(commands: Commands) -> None:
    """Add them to the parser."""
    _add_check(commands)
    _add_doctor(commands)


def _add_check(commands: Commands) -> None:
    parser = add_command(
        commands, "check", _check, "look for mistakes in an env before training on it",
        "Steps the env with random actions and checks spaces, values, determinism, buffers, pickling and speed. In a "
        "kernel world it also checks every array index and compares compiled code with plain Python. The exit status "
        "is 1 if there are problems. The env runs in a process of its own: if it crashes, exits or hangs, that is "
        "reported as well. In Python: rookery.testing.check_world.",
        "rookery check my_env.py:MyEnv --steps 1000",
    )  # fmt: skip
    env_arguments(parser)
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="number of steps (200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the env and of the actions (0)")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="a call to the env that takes longer hangs (60)"
    )


def _check(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.cli.check_process import run_check

    check_seed(options.seed)
    if not options.timeout > 0:
        raise OptionError(f"--timeout should be a positive number of seconds, got {options.timeout:g}")
    with meanwhile(f"checking {options.env}: {options.steps:,} steps, several times"):
        outcome = run_check(options)
    if outcome.report is None:
        print(outcome.error, file=sys.stderr)
    elif options.json:
        printing.emit_json(outcome.report.as_dict())
    else:
        print(printable_lines(outcome.report))
    return outcome.status


def _add_doctor(commands: Commands) -> None:
    parser = add_command(
        commands, "doctor", _doctor, "check this machine: cores, limits, memory, GPU, packages; or a cluster",
        "Says what is missing and how to install it. Starts a worker process with each start method; the exit status "
        "is 1 if none works. With --on ray it measures every node of a cluster, and says what will limit a run; the "
        "exit status is 1 if a node has other versions.",
        "rookery doctor --json",
    )  # fmt: skip
    parser.add_argument("--on", choices=("local", "ray"), default="local", help="what to check")
    parser.add_argument("--address", metavar="auto|HOST:PORT", help="the Ray cluster; without, one is started here")


def _doctor(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.tools import doctor

    if options.on == "ray":
        return _cluster_doctor(options)
    if options.address:
        raise OptionError("--address is that of a Ray cluster: give --on ray as well")
    findings = doctor.run_checks()
    if options.json:
        printing.emit_json(doctor.as_json(findings))
    else:
        doctor.print_checks(findings)
    return 0 if doctor.healthy(findings) else 1


def _cluster_doctor(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.cluster import cluster_report

    nodes, here = import_module("rookery.cluster.ray_doctor").examine_cluster(options.address)
    if options.json:
        printing.emit_json(cluster_report.report_json(nodes, here))
    else:
        cluster_report.print_report(nodes, here)
    return 1 if cluster_report.problems(nodes, here) else 0
