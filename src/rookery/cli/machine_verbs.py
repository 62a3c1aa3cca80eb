"""The commands that try this machine: `bench`, `tune` and `profile` measure speed, `selftest` checks promises."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from rookery.cli.arguments import env_arguments, env_options, named_env, show, world_name
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import meanwhile
from rookery.files import check_file

if TYPE_CHECKING:
    from rookery.training.selftest import CheckOutcome


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip() and word.strip() != "none")


def add_bench(commands: Commands) -> None:
    parser = add_command(
        commands, "bench", _bench, "compare the speed of rookery with that of other libraries",
        "All libraries run the same env with the same random actions, in turns of a fraction of a second, so that "
        "noise on the machine affects them equally. The ratios are medians over the rounds.",
        "rookery bench CartPole-v1 --num-envs 8 --against gymnasium,sb3 --seconds 3",
    )  # fmt: skip
    env_arguments(parser)
    takes(parser, "--num-envs --n-envs N", "number of envs of each library", 8)
    takes(
        parser, "--against LIST", "the libraries to compare with, separated by commas: some of gymnasium, sb3, "
        "envpool, or none (all that are installed)", type=_words, default=("gymnasium", "sb3", "envpool"),
    )  # fmt: skip
    takes(parser, "--seconds S", "seconds of measurement for each library", 3.0)
    takes(
        parser, "--backend LIST", "the backends of rookery to run, separated by commas: some of process, serial, "
        "thread, kernel; the others are compared with the first one (process,serial; for a kernel world "
        "kernel,process,serial)", type=_words, default=None,
    )  # fmt: skip
    takes(parser, "--workers N", "number of workers that rookery uses (measured)", type=int)
    takes(parser, "--plot FILE", "also write a bar chart to this file: .png, .svg or .pdf")


def _bench(options: argparse.Namespace) -> int:
    if options.plot:
        from rookery.tools.bench import check_plot_file, draw

        check_plot_file(options.plot)
        check_file(options.plot)
    from rookery.tools.bench import bench

    result = bench(
        named_env(options), options.num_envs, options.against, options.seconds, options.backend, options.workers
    )
    show(options, result.as_json, result.print)
    if options.plot:
        draw(result, options.plot)
    return 0


def add_tune(commands: Commands) -> None:
    parser = add_command(
        commands, "tune", _tune, "find the best number of envs and workers",
        "Measures the serial backend and worker processes with several numbers of envs, and prints the call to copy: "
        "the one with the fewest envs within 2 % of the best rate.",
        "rookery tune my_env.py:MyEnv",
    )  # fmt: skip
    env_arguments(parser)
    takes(parser, "--seconds S", "seconds of measurement for each combination (1)", type=float, default=1.0)


def _tune(options: argparse.Namespace) -> int:
    from rookery.tools.tune import tune

    result = tune(world_name(options.env), options.seconds, env_options(options))
    return show(options, result.as_json, result.print)


def add_profile(commands: Commands) -> None:
    parser = add_command(
        commands, "profile", _profile, "show which functions of an env take the time",
        "Profiles the steps and the resets of one env, then measures the speed with more workers, and says what to "
        "change first.",
        "rookery profile my_env.py:MyEnv",
    )  # fmt: skip
    env_arguments(parser)
    takes(parser, "--steps N", "number of steps to profile (2,000, or what 2 seconds allow)", type=int)


def _profile(options: argparse.Namespace) -> int:
    from rookery.tools.profile import profile

    result = profile(named_env(options), options.steps)
    return show(options, result.as_json, result.print)


def add_selftest(commands: Commands) -> None:
    add_command(
        commands, "selftest", _selftest, "check that rookery works on this machine: train, kill, resume, compare",
        "Takes about a minute, and leaves nothing behind. It checks the compiled code, worker processes, a small "
        "training run, SIGKILL of a worker and of a whole run, an exact resume, and the GPU if there is one. The exit "
        "status is 1 if a check fails. `rookery doctor` describes the machine without training.",
        "rookery selftest --json",
    )  # fmt: skip


def _selftest(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.selftest import selftest

    started = time.perf_counter()
    with meanwhile("checking; this takes about a minute"):
        report = selftest(_print_nothing if options.json else _print_outcome)
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
