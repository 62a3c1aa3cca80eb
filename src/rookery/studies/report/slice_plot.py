"""The plot of a study's values over each parameter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rookery.monitor.plots import ACCENT, EVAL, INK, PALE, style_frame
from rookery.studies.report.plot_parameters import PlotParameter, label, plot_parameters
from rookery.studies.report.report import StudyReport

MOST, COLUMNS = 12, 4
JITTER = 0.18


def draw_slices(figure: Any, report: StudyReport) -> bool:
    """One small plot for each parameter: where good values are. The trial to use is marked."""
    trials = [trial for trial in report.study.trials if trial.is_comparable]
    shown = plot_parameters(report, trials, MOST)
    if not shown:
        return False
    columns = min(COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure.set_size_inches(max(5.0, 2.75 * columns), 1.05 + 2.5 * rows)
    height = figure.get_size_inches()[1]
    top, bottom = 1 - 0.9 / height, 0.55 / height
    grid = figure.add_gridspec(rows, columns, left=0.08, right=0.98, top=top, bottom=bottom, wspace=0.12, hspace=0.55)
    values = np.array([trial.values[0] for trial in trials])
    low, high = np.quantile(values, (0.02, 1.0) if report.study.maximise else (0.0, 0.98))
    room = 0.06 * (high - low or 1.0)
    for k, parameter in enumerate(shown):
        axes = figure.add_subplot(grid[k // columns, k % columns])
        _draw_one(axes, report, parameter)
        axes.set_ylim(low - room, high + room)
        if k % columns:
            axes.set_yticklabels([])
        else:
            axes.set_ylabel("value", color=INK, fontsize=9)
    figure.suptitle(label(report.study.name), x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.text(
        0.012, 1 - 0.5 / height, "value over each parameter, the most important first", color=PALE, fontsize=9.5
    )
    return True


def _draw_one(axes: Any, report: StudyReport, parameter: PlotParameter) -> None:
    trials = [trial for trial in report.study.trials if trial.is_comparable and parameter.name in trial.params]
    places = np.array([parameter.place(trial) for trial in trials], dtype=float)
    values = np.array([trial.values[0] for trial in trials])
    if parameter.choices is not None:
        places = places + np.random.default_rng(0).uniform(-JITTER, JITTER, len(places))
    size = 16 if len(trials) <= 500 else 5
    axes.scatter(places, values, s=size, color=ACCENT, alpha=0.5, linewidth=0)
    best = report.study.chosen
    if best is not None and best in trials:
        axes.plot(places[trials.index(best)], best.values[0], "D", color=EVAL, markersize=5.5)
    style_frame(axes)
    axes.set_title(label(parameter.name), fontsize=9, color=INK, loc="left")
    _ticks(axes, parameter)


def _ticks(axes: Any, parameter: PlotParameter) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if parameter.choices is not None:
        names = [label(name)[:12] for name in parameter.choices]
        axes.set_xticks(range(len(names)), names, rotation=30 if len(names) > 3 else 0)
        axes.set_xlim(-0.5, len(names) - 0.5)
    elif parameter.is_log:
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda place, _: f"{10**place:.1g}"))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(4))
