"""The commands `resume` and `runs`: continue a run, list runs, delete them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import (
    changes_from,
    config_value,
    no_panel_argument,
    run_arguments,
    runs_dir_argument,
    set_argument,
    trust_argument,
)
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, check_run_world, find_run, finish_run, stdout_to_stderr
from rookery.console import confirmed, meanwhile, size_text
from rookery.errors import OptionError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.training.storage.delete_runs import Deleted


def add_commands(commands: Commands) -> None:
    """Add them to the parser."""
    _add_resume(commands)
    _add_runs(commands)


def _add_resume(commands: Commands) -> None:
    parser = add_command(
        commands, "resume", _resume, "continue a run that ended or was killed",
        "It starts from the latest checkpoint, with the configuration in the run's folder. The values of flags and "
        "--set are stored there and hold for later resumes too.",
        "rookery resume latest --steps 2e6 --set evaluation.every=50_000",
    )  # fmt: skip
    run_arguments(parser)
    trust_argument(parser)
    parser.add_argument(
        "--steps", "--total-timesteps", type=config_value, metavar="N",
        help="train until the run has this many steps in total (as before)",
    )  # fmt: skip
    parser.add_argument(
        "--num-episodes", "--episodes", type=config_value, metavar="N",
        help="train until the run has this many episodes in total (as before)",
    )  # fmt: skip
    no_panel_argument(parser)
    set_argument(
        parser,
        "steps, episodes, workers, on_failure, max_restarts, bad_values, on_out_of_memory, devices, one of "
        "cluster.*, evaluation.*, checkpoints.* (but not checkpoints.dir) or monitor.*, or an option that the learner "
        "can change while it runs, such as ppo.learning_rate. Other keys are refused, because the checkpoint depends "
        "on them",
    )


def _resume(options: argparse.Namespace) -> int:
    from rookery.config import resumed_config
    from rookery.config.run_size import check_run_size

    lengths = {"steps": options.steps, "episodes": options.num_episodes}
    changes = changes_from(options, **lengths, **{"monitor.panel": options.panel})
    found = find_run(options)
    config, _ = resumed_config(found.read_config(), changes)
    if config.on_out_of_memory == "raise":  # else the run lowers what does not fit
        check_run_size(config)
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
        commands, "runs", _runs, "list runs, or delete them",
        "The run that was started last comes first. A run that is in use is never deleted.",
        "rookery runs --world CartPole-v1 --delete",
    )  # fmt: skip
    parser.add_argument("names", metavar="RUN", nargs="*", help="only these runs: names, folders, or latest")
    parser.add_argument("--world", metavar="WORLD", help="only runs of this world")
    parser.add_argument(
        "--delete", action="store_true",
        help="delete the runs that RUN and --world select, with their checkpoints, after a question",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="with --delete: do not ask")
    runs_dir_argument(parser)


def _runs(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.storage.runs_table import print_table

    rows = _selected(options)
    if options.delete:
        return _delete(options, rows)
    if options.yes:
        raise OptionError("--yes answers the question of --delete, which is not given")
    if options.json:
        printing.emit_json({"runs": rows})
    elif rows:
        print_table(rows)
    elif options.world:
        print(f"there are no runs of {options.world} in {options.runs_dir}; `rookery runs` lists all")
    else:
        print(f"there are no runs in {options.runs_dir}; `rookery train CartPole-v1` starts one")
    return 0


def _selected(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the runs that are named and of the world that is asked for; without either, of all."""
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.runs_table import row, table

    if options.names:
        found = [RunDir.find(name, Path(options.runs_dir)) for name in options.names]
        rows = [row(run) for run in {run.path.absolute(): run for run in found}.values()]
    else:
        rows = table(options.runs_dir)
    return rows if options.world is None else [row for row in rows if _is_of(row, options.world)]


def _is_of(row: dict[str, Any], world: str) -> bool:
    """Whether a run is of this world, whatever the case of its letters; a file's world also by the name of the file
    and the class alone."""
    have, wanted = str(row["world"] or "").lower(), world.lower()
    return have == wanted or (":" in wanted and have.endswith(f"/{wanted}"))


def _delete(options: argparse.Namespace, rows: list[dict[str, Any]]) -> int:
    from rookery import printing
    from rookery.training.storage.delete_runs import delete_runs, disk_usage
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.runs_table import print_table

    if not options.names and options.world is None:
        raise OptionError("--delete needs a selection: name the runs, or give their --world")
    runs = [RunDir(Path(row["path"])) for row in rows]
    if runs and not options.yes:
        with stdout_to_stderr(options.json):
            print_table(rows)
        size = size_text(sum(disk_usage(run.path) for run in runs))
        answer = confirmed(f"delete {'this run' if len(runs) == 1 else f'these {len(runs)} runs'} ({size})?")
        if answer is None:
            raise OptionError("there is no terminal to ask on: --yes deletes without a question")
        if not answer:
            print("nothing was deleted", file=sys.stderr)
            return 1
    done = delete_runs(runs, Path(options.runs_dir))
    if options.json:
        printing.emit_json({"deleted": done.names, "bytes": done.freed, "kept": done.kept, "notes": done.notes})
    else:
        _print_deleted(done)
    return 1 if done.kept else 0


def _print_deleted(done: Deleted) -> None:
    for name in done.names:
        print(f"deleted {name}")
    for name, why in done.kept.items():
        print(f"kept {name}: {why}")
    for note in done.notes:
        print(note)
    print(f"{len(done.names)} run{'' if len(done.names) == 1 else 's'} deleted, {size_text(done.freed)} freed")
