"""The commands `compare` and `plot`: several runs in one table, and in one plot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import check_file, runs_dir_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import print_path
from rookery.console import printable, say
from rookery.errors import MissingExtra, OptionError, RunError

if TYPE_CHECKING:
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.run_groups import RunGroup

AXES = ("steps", "time", "episodes")
SUFFIXES = (".png", ".svg", ".pdf")


def add_commands(commands: Commands) -> None:
    """Add them to the parser."""
    compare = add_command(
        commands, "compare", _compare, "compare runs: evaluations, time, speed, and what differs in their configs",
        "Runs that differ only in the seed are one row: the interquartile mean over the seeds, with a 95 % bootstrap "
        "interval. The interval of a single run is that of the mean over the episodes of its last evaluation.",
        "rookery compare CartPole-v1-ppo-s0_vec16 CartPole-v1-dqn-s0_vec8",
    )  # fmt: skip
    plot = add_command(
        commands, "plot", _plot, "draw the curves of runs in one plot",
        "Runs that differ only in the seed are one band: the interquartile mean over the seeds, with a 95 % bootstrap "
        "interval. With one run, and neither --x nor --metric, it is the run's own plot: returns, losses and speed.",
        "rookery plot first second --x time --output curves.svg",
    )  # fmt: skip
    for parser, default in ((compare, "compare.png"), (plot, "curves.png")):
        parser.add_argument("names", metavar="RUN", nargs="+", help="names of runs, their folders, or latest")
        parser.add_argument("--x", choices=AXES, help="the horizontal axis (steps)")
        parser.add_argument(
            "--metric", metavar="NAME",
            help="the vertical axis: a metric of metrics.jsonl, such as episode/return (eval/return)",
        )  # fmt: skip
        parser.add_argument("--each", action="store_true", help="do not join the seeds of one configuration")
        parser.add_argument(
            "--output", metavar="FILE", help=f"the plot: .png, .svg or .pdf (plots/{default} in the runs folder)"
        )
        runs_dir_argument(parser)


def _compare(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.training.storage.compare_runs import compare, print_comparison
    from rookery.training.storage.run_groups import differences

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
        return print_path(_own_plot(groups[0].runs[0], options.output), options.json)
    return print_path(_draw(options, groups, "curves.png"), options.json)


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
        return _draw(options, groups, "compare.png")
    except (MissingExtra, OSError) as error:
        if options.output is not None:
            raise
        say(f"the plot was not drawn: {printable(error)}")
        return None


def _draw(options: argparse.Namespace, groups: Sequence[RunGroup], file: str) -> Path:
    from rookery.files import own_folder
    from rookery.monitor.plots import draw_groups

    axis = options.x or "steps"
    metric, curves = _curves(options, groups, axis)
    out = Path(options.output) if options.output else own_folder(Path(options.runs_dir) / "plots") / file
    return draw_groups(curves, out, metric, axis, _title(groups))


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
        raise RunError(f"none of these runs has the metric {metric!r}; metrics.jsonl of a run names what it has")
    return EPISODE, read(EPISODE)


def _title(groups: Sequence[RunGroup]) -> str:
    from rookery.training.storage.run_groups import read_config

    worlds = [str(read_config(run).get("world", "")) for group in groups for run in group.runs]
    named = [printable(world.rpartition("/")[2] if ".py:" in world else world) for world in worlds]
    return ", ".join(list(dict.fromkeys(filter(None, named)))[:3])
