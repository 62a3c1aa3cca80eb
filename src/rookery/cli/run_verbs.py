"""The commands about stored runs: `resume`, `runs`, `compare`, `plot`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import (
    changes_from,
    check_file,
    check_run_world,
    config_value,
    find_run,
    finish_run,
    loading,
    no_panel_argument,
    print_path,
    run_arguments,
    runs_dir_argument,
    set_argument,
    stdout_to_stderr,
    trust_argument,
)
from rookery.cli.parser import Commands, add_command
from rookery.console import confirmed, printable, say, size_text
from rookery.errors import MissingExtra, OptionError, RunError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.run_groups import RunGroup
    from rookery.training.storage.runs_table import Deleted


def add_resume(commands: Commands) -> None:
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
    from rookery.monitor.plot_process import imported_early

    with imported_early(config.monitor.plot):
        with loading():
            from rookery.training.run.train import resume

        with stdout_to_stderr(options.json):
            result = resume(str(found.path), options.runs_dir, **keywords)
        return finish_run(result, options)


def add_runs(commands: Commands) -> None:
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
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.runs_table import delete_runs, disk_usage, print_table

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


AXES = ("steps", "time", "episodes")
SUFFIXES = (".png", ".svg", ".pdf")
MOST_NAMES, LONGEST_NAME = 3, 40  # of runs, in the name of a file


def add_compare(commands: Commands) -> None:
    parser = add_command(
        commands, "compare", _compare, "compare runs: evaluations, time, speed, and what differs in their configs",
        "Runs that differ only in the seed are one row: the interquartile mean over the seeds, with a 95 % bootstrap "
        "interval. The interval of a single run is that of the mean over the episodes of its last evaluation.",
        "rookery compare CartPole-v1-ppo-s0_vec16 CartPole-v1-dqn-s0_vec8",
    )  # fmt: skip
    _curve_arguments(parser)


def add_plot(commands: Commands) -> None:
    parser = add_command(
        commands, "plot", _plot, "draw the curves of runs in one plot",
        "Runs that differ only in the seed are one band: the interquartile mean over the seeds, with a 95 % bootstrap "
        "interval. With one run, and neither --x nor --metric, it is the run's own plot: returns, losses and speed.",
        "rookery plot first second --x time --output curves.svg",
    )  # fmt: skip
    _curve_arguments(parser)


def _curve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="RUN", nargs="+", help="names of runs, their folders, or latest")
    parser.add_argument("--x", choices=AXES, help="the horizontal axis (steps)")
    parser.add_argument(
        "--metric", metavar="NAME",
        help="the vertical axis: a metric of metrics.jsonl, such as episode/return (eval/return)",
    )  # fmt: skip
    parser.add_argument("--each", action="store_true", help="do not join the seeds of one configuration")
    parser.add_argument(
        "--output", metavar="FILE",
        help="the plot: .png, .svg or .pdf (in plots/ of the runs folder, named after what it shows)",
    )  # fmt: skip
    runs_dir_argument(parser)


def _compare(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.storage.run_groups import compare, differences, print_comparison

    groups = _groups(options)
    rows = compare(groups)
    different = differences([group.runs[0] for group in groups])
    if any(len(group.runs) > 1 for group in groups):
        different.pop("seed", None)
    names = [group.name for group in groups]
    plot = _draw_if_possible(options, groups)
    if options.json:
        chosen = {key: dict(zip(names, values, strict=True)) for key, values in different.items()}
        printing.emit_json({"runs": rows, "different": chosen, "plot": plot and str(plot)})
        return 0
    print_comparison(rows, different, names)
    if plot is not None:
        print(f"\nplot: {plot}")
    return 0


def _plot(options: argparse.Namespace) -> int:
    groups = _groups(options)
    if len(groups) == len(groups[0].runs) == 1 and options.x is None and options.metric is None:
        return print_path(_own_plot(groups[0].runs[0], options.output), options)
    return print_path(_draw(options, groups), options)


def _own_plot(run: RunDir, output: str | None) -> Path:
    from rookery.files import own_folder
    from rookery.monitor.plots import draw

    if not run.metrics.is_file():
        raise RunError(f"{run.name} has no metrics.jsonl, from which its plot would be drawn")
    return draw(run.metrics, output or own_folder(run.plots) / "learning.png")


def _groups(options: argparse.Namespace) -> Sequence[RunGroup]:
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.run_groups import RunGroup, group_runs

    if options.output is not None:
        if Path(options.output).suffix.lower() not in SUFFIXES:
            raise OptionError(f"--output should end in {', '.join(SUFFIXES)}, got {options.output}")
        check_file(options.output)
    found = [RunDir.find(name, Path(options.runs_dir)) for name in options.names]
    runs = list({run.path.resolve(): run for run in found}.values())
    return [RunGroup(run.name, [run]) for run in runs] if options.each else group_runs(runs)


def _draw_if_possible(options: argparse.Namespace, groups: Sequence[RunGroup]) -> Path | None:
    """The plot beside a table: without it, the table is still useful."""
    try:
        return _draw(options, groups)
    except (MissingExtra, OSError) as error:
        if options.output is not None:
            raise
        say(f"the plot was not drawn: {printable(error)}")
        return None


def _draw(options: argparse.Namespace, groups: Sequence[RunGroup]) -> Path:
    from rookery.files import own_folder
    from rookery.monitor.plots import draw_groups

    axis = options.x or "steps"
    metric, curves = _curves(options, groups, axis)
    out = (
        Path(options.output)
        if options.output
        else own_folder(Path(options.runs_dir) / "plots") / _file_name(metric, axis, [group.name for group in groups])
    )
    return draw_groups(curves, out, metric, axis, _title(groups))


def _file_name(metric: str, axis: str, names: Sequence[str]) -> str:
    """What a plot shows: `eval-return-over-steps-of-first-second.png`; of more than three runs, how many more."""
    shown = [*names[:MOST_NAMES], *([f"{len(names) - MOST_NAMES}-more"] if len(names) > MOST_NAMES else [])]
    words = "-".join([metric, "over", axis, "of", *(name[:LONGEST_NAME] for name in shown)])
    return re.sub(r"[^\w.+]+", "-", words).strip("-") + ".png"


def _curves(options: argparse.Namespace, groups: Sequence[RunGroup], axis: str) -> tuple[str, list[Any]]:
    """The metric that is drawn, and its curves. Without evaluations it is the return of the training's episodes."""
    from rookery.monitor.plots import CurveGroup
    from rookery.monitor.statistics import EPISODE, EVALUATION, read_curve

    def read(metric: str) -> list[CurveGroup]:
        paths = [(group, [run.metrics for run in group.runs if run.metrics.is_file()]) for group in groups]
        return [CurveGroup(group.name, [read_curve(path, metric, axis) for path in files]) for group, files in paths]

    metric = options.metric or EVALUATION
    curves = read(metric)
    if any(len(curve.x) for group in curves for curve in group.curves):
        return metric, curves
    if options.metric:
        raise RunError(f"none of these runs has the metric {metric!r}; {_metrics_near(metric, groups)}")
    return EPISODE, read(EPISODE)


def _metrics_near(metric: str, groups: Sequence[RunGroup]) -> str:
    """What was probably meant; else all there are."""
    from rookery.config.fields import closest_names, join_or
    from rookery.monitor.statistics import history, scalars

    files = [run.metrics for group in groups for run in group.runs if run.metrics.is_file()]
    names = sorted({name for file in files for event in history(file) for name in scalars(event)})
    near = closest_names(metric, names)
    return f"did you mean {join_or(near)}?" if near else f"there are {', '.join(names)}"


def _title(groups: Sequence[RunGroup]) -> str:
    from rookery.training.storage.run_groups import read_config

    worlds = [str(read_config(run).get("world", "")) for group in groups for run in group.runs]
    named = [printable(world.rpartition("/")[2] if ".py:" in world else world) for world in worlds]
    return ", ".join(list(dict.fromkeys(filter(None, named)))[:3])
