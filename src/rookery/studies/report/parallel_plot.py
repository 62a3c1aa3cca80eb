"""The plot of a study's trials as lines over its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.monitor.plots import INK, PALE
from rookery.studies.report.plot_parameters import PlotParameter, label, plot_parameters
from rookery.studies.report.report import StudyReport
from rookery.studies.report.report_tables import setting_text
from rookery.studies.storage.study_view import TrialView

MOST, MOST_TRIALS = 8, 500
CROWDED = 5  # parameters whose names fit side by side
COLOURS = "viridis"


def draw_parallel(figure: Any, report: StudyReport) -> bool:
    """A line for each trial through the values of its parameters, coloured by the trial's value."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    sign = 1 if report.study.maximise else -1
    trials = sorted((t for t in report.study.trials if t.is_comparable), key=lambda t: sign * t.values[0])[
        -MOST_TRIALS:
    ]
    shown = plot_parameters(report, trials, MOST)
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
    low_name = is_crowded and place % 2 == 1
    axes.text(
        place,
        -0.18 if low_name else -0.13,
        label(parameter.name),
        ha="center",
        va="center",
        color=INK,
        fontsize=8.5,
    )
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
