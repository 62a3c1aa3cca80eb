"""The commands that look for problems: `check` in an env, `doctor` on the machine."""

from __future__ import annotations

import argparse
from importlib import import_module

from rookery.cli.arguments import check_seed, env_arguments, named_env
from rookery.cli.parser import Commands, add_command
from rookery.console import meanwhile
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
        "is 1 if there are problems. In Python: rookery.testing.check_world.",
        "rookery check my_env.py:MyEnv --steps 1000",
    )  # fmt: skip
    env_arguments(parser)
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="number of steps (200)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the env and of the actions (0)")


def _check(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.testing import check_world

    check_seed(options.seed)
    with meanwhile(f"checking {options.env}: {options.steps:,} steps, several times"):
        report = check_world(named_env(options), steps=options.steps, seed=options.seed)
    if options.json:
        printing.emit_json(report.as_dict())
    else:
        print(report)
    return 0 if report.ok else 1


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
