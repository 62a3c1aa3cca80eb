"""Plots of a study's parameters: the values over each of them, and the trials as lines over all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.console import printable
from rookery.monitor.plots import ACCENT, EVAL, INK, PALE, style_frame
from rookery.studies.report.importances import is_number
from rookery.studies.report.report import StudyReport
from rookery.studies.report.report_text import setting_text
from rookery.studies.storage.study_view import TrialView

MOST, COLUMNS = 12, 4
JITTER = 0.18
MOST_LINES, MOST_TRIALS = 8, 500
CROWDED = 5  # parameters whose names fit side by side
COLOURS = "viridis"


@dataclass(frozen=True)
class PlotParameter:
    """A parameter: its places from its smallest value to its largest, or one place per choice."""

    name: str
    choices: tuple[str, ...] | None  # None for numbers
    is_log: bool

    def place(self, trial: TrialView) -> float | None:
        """Where the trial's value is on the axis; None if it has none."""
        if self.name not in trial.params:
            return None
        value = trial.params[self.name]
        if self.choices is not None:
            return float(self.choices.index(setting_text(value)))
        return math.log10(value) if self.is_log else float(value)


def label(text: str) -> str:
    """A name in a plot: Matplotlib takes what is between dollars for a formula."""
    return printable(text).replace("$", r"\$")


def plot_parameters(report: StudyReport, trials: Sequence[TrialView], most: int) -> list[PlotParameter]:
    """The parameters that vary, the most important first."""
    names = dict.fromkeys([*report.importances, *(name for trial in trials for name in trial.params)])
    logs = {name for name, each in report.study.distributions.items() if each.log}
    found = [_parameter(name, [trial for trial in trials if name in trial.params], name in logs) for name in names]
    return [each for each in found if each is not None][:most]


def _parameter(name: str, trials: Sequence[TrialView], is_log: bool) -> PlotParameter | None:
    values = [trial.params[name] for trial in trials]
    texts = list(dict.fromkeys(map(setting_text, values)))
    if len(texts) < 2:
        return None
    if not all(is_number(value) for value in values):
        return PlotParameter(name, tuple(sorted(texts)), False)
    return PlotParameter(name, None, is_log and min(values) > 0)


def draw_slices(figure: Any, report: StudyReport) -> bool:
    """One small plot for each parameter: where good values are. The trial to use is marked."""
    trials = report.study.comparable
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
    trials = [trial for trial in report.study.comparable if parameter.name in trial.params]
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


def draw_parallel(figure: Any, report: StudyReport) -> bool:
    """A line for each trial through the values of its parameters, coloured by the trial's value."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    sign = 1 if report.study.maximise else -1
    trials = sorted(report.study.comparable, key=lambda trial: sign * trial.values[0])[-MOST_TRIALS:]
    shown = plot_parameters(report, trials, MOST_LINES)
    trials = [trial for trial in trials if all(parameter.name in trial.params for parameter in shown)]
    if len(shown) < 2 or len(trials) < 3:
        return False
    axes = figure.add_axes((0.06, 0.14, 0.86, 0.68))
    lines = np.array([[parameter.place(trial) for parameter in shown] for trial in trials], dtype=float)
    lows, highs = lines.min(axis=0), lines.max(axis=0)
    heights = (lines - lows) / np.where(highs > lows, highs - lows, 1.0)
    ranks = np.linspace(0, 1, len(trials))  # by order: few values are near the best
    paths = np.stack([np.broadcast_to(np.arange(len(shown)), heights.shape), heights], axis=2)
    colours = [(*colormaps[COLOURS](0.95 * rank)[:3], 0.25 + 0.6 * rank**2) for rank in ranks]
    axes.add_collection(LineCollection(list(paths), colors=colours, linewidths=0.8 + 1.4 * ranks**4))
    for place, parameter in enumerate(shown):
        _draw_axis(axes, place, parameter, (lows[place], highs[place]), is_crowded=len(shown) > CROWDED)
    axes.set_xlim(-0.35, len(shown) - 0.65)
    axes.set_ylim(-0.03, 1.03)
    axes.axis("off")
    _colour_scale(figure, trials)
    figure.suptitle(label(report.study.name), x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.text(0.012, 0.9, "each line is a trial; its colour is the place of its value", color=PALE, fontsize=9.5)
    return True


def _draw_axis(axes: Any, place: int, parameter: PlotParameter, ends: tuple[float, float], *, is_crowded: bool) -> None:
    low, high = ends
    axes.plot([place, place], [0, 1], color="#c9ced4", linewidth=1, zorder=0)
    below = -0.18 if is_crowded and place % 2 else -0.13
    axes.text(place, below, label(parameter.name), ha="center", va="center", color=INK, fontsize=8.5)
    if parameter.choices is not None:
        for index, choice in enumerate(parameter.choices):
            height = (index - low) / (high - low or 1.0)
            beside, side = (place - 0.03, "right") if place == 0 else (place + 0.03, "left")
            axes.text(beside, height, label(choice)[:14], color=INK, fontsize=8, va="center", ha=side)
        return
    for height, at in ((-0.05, low), (1.05, high)):
        value = 10**at if parameter.is_log else at
        axes.text(place, height, setting_text(float(value)), ha="center", va="center", color=PALE, fontsize=8)


def _colour_scale(figure: Any, trials: list[TrialView]) -> None:
    scale = figure.add_axes((0.945, 0.14, 0.012, 0.68))
    scale.imshow(np.linspace(0, 0.95, 64)[:, None], aspect="auto", origin="lower", cmap=COLOURS, vmin=0, vmax=1)
    values = [trial.values[0] for trial in trials]
    places = (0, len(values) // 2, len(values) - 1)
    ticks = [63 * place / (len(values) - 1) for place in places]
    scale.set_yticks(ticks, [f"{values[place]:.3g}" for place in places])
    scale.set_xticks([])
    scale.yaxis.tick_right()
    scale.tick_params(colors=PALE, labelsize=8, length=0)
    for spine in scale.spines.values():
        spine.set_visible(False)
