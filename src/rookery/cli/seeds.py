"""`rookery train --seeds`: the same configuration with several seeds."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from rookery.cli.stored_run import stdout_to_stderr
from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.config import RunConfig


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add `--seeds` and `--jobs`."""
    group.add_argument(
        "--seeds", metavar="N|A,B,...",
        help="train with N seeds, counted from --seed, or with the seeds A,B,...: one run for each seed, and a summary "
        "of all. The same command again resumes runs that have not finished, and does not repeat those that have",
    )  # fmt: skip
    group.add_argument(
        "--jobs", type=int, metavar="N", help="with --seeds: how many runs at a time (chosen by cores and backend)"
    )


def wanted(options: argparse.Namespace) -> bool:
    """Whether several seeds are to be trained."""
    if options.seeds is None and options.jobs is not None:
        raise OptionError("--jobs says how many of --seeds are trained at a time, and --seeds is not given")
    return options.seeds is not None


def train_with_seeds(config: RunConfig, options: argparse.Namespace) -> int:
    """Train all seeds, and print the summary. Returns the exit status."""
    from rookery import printing
    from rookery.training.seeds.seed_list import seed_list
    from rookery.training.seeds.train_seeds import print_result, train_seeds

    seeds = seed_list(options.seeds, config.seed)
    if "," in options.seeds and "seed" in config.model_fields_set:
        raise OptionError(
            f"--seeds {options.seeds} lists the seeds, so that `seed` = {config.seed} has no use: omit it"
        )
    with stdout_to_stderr(options.json):
        result = train_seeds(config, seeds, options.jobs)
    if options.json:
        printing.emit_json(result.as_json())
    elif config.monitor.verbose:
        print_result(result, _command())
    return result.exit_code


def _command() -> str:
    """The command that the user has typed."""
    return shlex.join(["rookery", *sys.argv[1:]])
