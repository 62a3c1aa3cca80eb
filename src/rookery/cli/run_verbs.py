"""The commands `resume` and `runs`: continue a run, list all runs."""

from __future__ import annotations

import argparse
from typing import Any

from rookery.cli.arguments import changes_from, run_arguments, runs_dir_argument, set_argument, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, check_run_world, find_run, finish_run, stdout_to_stderr
from rookery.console import meanwhile
from rookery.training import check_installed


def add_commands(commands: Commands) -> None:
    """Add them to the parser."""
    _add_resume(commands)
    _add_runs(commands)


def _add_resume(commands: Commands) -> None:
    parser = add_command(
        commands, "resume", _resume, "continue a run that ended or was killed",
        "It starts from the latest checkpoint, with the configuration in the run's folder. The values of --steps and "
        "--set are stored there and hold for later resumes too.",
        "rookery resume latest --steps 2e6 --set evaluation.every=50_000",
    )  # fmt: skip
    from rookery.config import parse_value

    run_arguments(parser)
    trust_argument(parser)
    parser.add_argument(
        "--steps", type=parse_value, metavar="N", help="train until the run has this many steps in total (as before)"
    )
    set_argument(
        parser,
        "steps, episodes, workers, on_failure, max_restarts, bad_values, one of evaluation.*, checkpoints.* or "
        "monitor.*, or an option that the learner can change while it runs, such as ppo.learning_rate. Other keys are "
        "refused, because the checkpoint depends on them",
    )


def _resume(options: argparse.Namespace) -> int:
    from rookery.config import resumed_config

    changes = changes_from(options, steps=options.steps)
    found = find_run(options)
    resumed_config(found.read_config(), changes)
    found.refuse_links()
    trusted = check_run_world(found, options, resuming=True)
    changes.pop("runs_dir", None)  # the same as before, or it would have been refused
    # As a keyword, None would mean that the key is not given.
    keywords: dict[str, Any] = {key: "none" if value is None else value for key, value in changes.items()} | trusted
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.run.train import resume

    with stdout_to_stderr(options.json):
        result = resume(str(found.path), options.runs_dir, **keywords)
    return finish_run(result, options.json)


def _add_runs(commands: Commands) -> None:
    parser = add_command(
        commands, "runs", _runs, "list all runs",
        "The run that was started last comes first.",
        "rookery runs --json",
    )  # fmt: skip
    runs_dir_argument(parser)


def _runs(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.storage.runs_table import print_table, table

    rows = table(options.runs_dir)
    if options.json:
        printing.emit_json({"runs": rows})
    elif rows:
        print_table(rows)
    else:
        print(f"there are no runs in {options.runs_dir}; `rookery train CartPole-v1` starts one")
    return 0
