"""`rookery compare` and `rookery plot`: runs side by side, as a table and as curves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from rookery.console import join_or, printable
from rookery.errors import OptionError, RunError
from rookery.files import check_file, own_folder
from rookery.foreign_names import OF_FILES, explains_keywords
from rookery.monitor.plots import CurveGroup, draw, draw_groups, drawn_if_possible
from rookery.monitor.statistics import EPISODE, EVALUATION, history, read_curve, scalars
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import (
    RunGroup,
    differences,
    group_rows,
    group_runs,
    print_comparison,
    read_config,
)
from rookery.training.storage.runs_table import NamedRun, find_runs

Axis = Literal["steps", "time", "episodes"]
SUFFIXES = (".png", ".svg", ".pdf")
MOST_NAMES, LONGEST_NAME = 3, 40  # of runs, in the name of a file


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """Returned by `rookery.compare`. Runs that differ only in the seed are one row."""

    rows: list[dict[str, Any]]  # each with its name, runs, last_eval, interval, best_eval, steps, seconds and state
    different: dict[str, list[Any]]  # keys of the configuration, with the value of each row
    plot: Path | None

    def __repr__(self) -> str:
        rows = ", ".join(f"{row['name']}: {row['last_eval']}, {row['interval']}" for row in self.rows)
        return f"ComparisonResult({rows}; different: {', '.join(self.different) or 'nothing'})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        names = [row["name"] for row in self.rows]
        different = {key: dict(zip(names, values, strict=True)) for key, values in self.different.items()}
        return {"runs": self.rows, "different": different, "plot": self.plot and str(self.plot)}

    def print(self) -> None:
        """Print it as tables."""
        print_comparison(self.rows, self.different, [row["name"] for row in self.rows])
        if self.plot is not None:
            print(f"\nplot: {self.plot}")


@explains_keywords(OF_FILES, "it takes runs")
def compare(
    *runs: NamedRun,
    runs_dir: str | Path = "runs",
    x: Axis | None = None,
    metric: str | None = None,
    each: bool = False,
    out: str | Path | None = None,
) -> ComparisonResult:
    """Compare runs: evaluations, time, speed, and what differs in their configurations.

    Runs that differ only in the seed are one row: the interquartile mean over the seeds, with a 95 % bootstrap
    interval. The interval of a single run is that of the mean over the episodes of its last evaluation.

    Args:
        runs: Results of `rookery.train`, or runs by their names, paths or as "latest".
        runs_dir: The folder of the runs.
        x: The horizontal axis of the plot, "steps", "time" or "episodes"; if omitted, steps.
        metric: Its vertical axis, a metric of metrics.jsonl; if omitted, "eval/return".
        each: Do not join the seeds of one configuration.
        out: The plot: .png, .svg or .pdf; if omitted, in plots/ of the folder of the runs, named after what it
            shows.
    """
    groups = _groups(runs, runs_dir, each, out)
    different = differences([group.runs[0] for group in groups])
    if any(len(group.runs) > 1 for group in groups):
        different.pop("seed", None)
    drawn = drawn_if_possible(lambda: _draw(groups, runs_dir, x, metric, out), out is not None)
    return ComparisonResult(group_rows(groups), different, drawn)


@explains_keywords(OF_FILES, "it takes runs")
def plot(
    *runs: NamedRun,
    runs_dir: str | Path = "runs",
    x: Axis | None = None,
    metric: str | None = None,
    each: bool = False,
    out: str | Path | None = None,
) -> Path:
    """Draw the curves of runs in one plot; returns its path. The arguments are those of `compare`.

    Runs that differ only in the seed are one band: the interquartile mean over the seeds, with a 95 % bootstrap
    interval. With one run, and neither `x` nor `metric`, it is the run's own plot: returns, losses and speed.
    """
    groups = _groups(runs, runs_dir, each, out)
    if len(groups) == len(groups[0].runs) == 1 and x is None and metric is None:
        return _own_plot(groups[0].runs[0], out)
    return _draw(groups, runs_dir, x, metric, out)


def _groups(runs: Sequence[NamedRun], runs_dir: str | Path, each: bool, out: str | Path | None) -> Sequence[RunGroup]:
    if out is not None:
        if Path(out).suffix.lower() not in SUFFIXES:
            raise OptionError(f"the plot should end in {', '.join(SUFFIXES)}, got {out}")
        check_file(out)
    if len(runs) == 1 and isinstance(runs[0], (list, tuple)):  # given as one list
        runs = runs[0]
    found = list({run.path.resolve(): run for run in find_runs(runs, runs_dir)}.values())  # a link is what it leads to
    if not found:
        raise OptionError("name the runs to compare, such as 'latest'")
    return [RunGroup(run.name, [run]) for run in found] if each else group_runs(found)


def _own_plot(run: RunDir, out: str | Path | None) -> Path:
    if not run.metrics.is_file():
        raise RunError(f"{run.name} has no metrics.jsonl, from which its plot would be drawn")
    return draw(run.metrics, out or own_folder(run.plots) / "learning.png")


def _draw(
    groups: Sequence[RunGroup], runs_dir: str | Path, x: Axis | None, metric: str | None, out: str | Path | None
) -> Path:
    axis = x or "steps"
    if axis not in get_args(Axis):
        raise OptionError(f"the horizontal axis should be {join_or(get_args(Axis))}, got {axis!r:.80}")
    drawn, curves = _curves(groups, axis, metric)
    if out is None:
        out = own_folder(Path(runs_dir) / "plots") / _file_name(drawn, axis, [group.name for group in groups])
    return draw_groups(curves, Path(out), drawn, axis, _title(groups))


def _file_name(metric: str, axis: str, names: Sequence[str]) -> str:
    """What a plot shows: `eval-return-over-steps-of-first-second.png`; of more than three runs, how many more."""
    shown = [*names[:MOST_NAMES], *([f"{len(names) - MOST_NAMES}-more"] if len(names) > MOST_NAMES else [])]
    words = "-".join([metric, "over", axis, "of", *(name[:LONGEST_NAME] for name in shown)])
    return re.sub(r"[^\w.+]+", "-", words).strip("-") + ".png"


def _curves(groups: Sequence[RunGroup], axis: Axis, wanted: str | None) -> tuple[str, list[Any]]:
    """The metric that is drawn, and its curves. Without evaluations it is the return of the training's episodes."""

    def read(metric: str) -> list[CurveGroup]:
        paths = [(group, [run.metrics for run in group.runs if run.metrics.is_file()]) for group in groups]
        return [CurveGroup(group.name, [read_curve(path, metric, axis) for path in files]) for group, files in paths]

    metric = wanted or EVALUATION
    curves = read(metric)
    if any(len(curve.x) for group in curves for curve in group.curves):
        return metric, curves
    if wanted:
        raise RunError(f"none of these runs has the metric {metric!r}; {_metrics_near(metric, groups)}")
    return EPISODE, read(EPISODE)


def _metrics_near(metric: str, groups: Sequence[RunGroup]) -> str:
    """What was probably meant; else all there are."""
    from rookery.config.fields import closest_names

    files = [run.metrics for group in groups for run in group.runs if run.metrics.is_file()]
    names = sorted({name for file in files for event in history(file) for name in scalars(event)})
    near = closest_names(metric, names)
    return f"did you mean {join_or(near)}?" if near else f"there are {', '.join(names)}"


def _title(groups: Sequence[RunGroup]) -> str:
    worlds = [str(read_config(run).get("world", "")) for group in groups for run in group.runs]
    named = [printable(world.rpartition("/")[2] if ".py:" in world else world) for world in worlds]
    return ", ".join(list(dict.fromkeys(filter(None, named)))[:3])
