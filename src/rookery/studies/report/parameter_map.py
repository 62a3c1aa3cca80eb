"""The two most important parameters of a study as a map of the values in between, with the deflation that a market's
trials deserve: the best cell of many is lucky."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.monitor.plots import INK, PALE
from rookery.studies.report.market_overfitting import fold_chance, trials_tried
from rookery.studies.report.parameter_plots import PlotParameter, label, plot_parameters
from rookery.studies.report.report import StudyReport
from rookery.studies.storage.study_view import TrialView

CELLS = 6  # along a parameter
FEWEST = 8  # trials
SURE = 0.95


def parameter_cells(
    report: StudyReport, parameters: tuple[PlotParameter, PlotParameter]
) -> tuple[list[np.ndarray], dict[tuple[int, int], list[TrialView]]]:
    """The borders of the cells along each parameter, and the trials in each cell."""
    trials = [trial for trial in report.study.comparable if all(p.name in trial.params for p in parameters)]
    places = np.array([[parameter.place(trial) for parameter in parameters] for trial in trials], float)
    borders = [_borders(parameter, places[:, k]) for k, parameter in enumerate(parameters)]
    cells: dict[tuple[int, int], list[TrialView]] = {}
    for trial, place in zip(trials, places, strict=True):
        at = [int(np.clip(np.searchsorted(borders[k], place[k], "right") - 1, 0, len(borders[k]) - 2)) for k in (0, 1)]
        cells.setdefault((at[0], at[1]), []).append(trial)
    return borders, cells


def _borders(parameter: PlotParameter, places: np.ndarray) -> np.ndarray:
    """One cell per choice, or cells of equal width."""
    if parameter.choices is not None:
        return np.arange(len(parameter.choices) + 1) - 0.5
    return np.linspace(places.min(), places.max(), min(CELLS, len(np.unique(places))) + 1)


def sure_cells(report: StudyReport, cells: dict[tuple[int, int], list[TrialView]]) -> set[tuple[int, int]]:
    """The cells whose best trial is worth something with a chance of 0.95, deflated by all trials of the study."""
    sign = 1 if report.study.maximise else -1
    best = {place: max(trials, key=lambda trial: sign * trial.values[0]) for place, trials in cells.items()}
    return {place for place, trial in best.items() if (fold_chance(report.study, trial) or 0.0) >= SURE}


def draw_map(figure: Any, report: StudyReport) -> bool:
    """The mean value and the number of trials in each cell. Framed cells are more than luck."""
    shown = plot_parameters(report, report.study.comparable, 2)
    if len(shown) < 2 or len(report.study.comparable) < FEWEST:
        return False
    first, second = shown
    (across, up), cells = parameter_cells(report, (first, second))
    values = np.full((len(up) - 1, len(across) - 1), np.nan)
    for (column, row), trials in cells.items():
        values[row, column] = np.mean([trial.values[0] for trial in trials])
    axes = figure.add_axes((0.14, 0.14, 0.82, 0.7))
    axes.pcolormesh(across, up, values, cmap="viridis" if report.study.maximise else "viridis_r", alpha=0.75)
    sure = sure_cells(report, cells)
    for (column, row), trials in cells.items():
        middle = (across[column : column + 2].mean(), up[row : row + 2].mean())
        axes.text(*middle, f"{values[row, column]:.3g}\n{len(trials)}", ha="center", va="center", fontsize=8, color=INK)
        if (column, row) in sure:
            corners = (across[column], up[row]), np.diff(across)[column], np.diff(up)[row]
            axes.add_patch(_frame(*corners))
    for parameter, axis in ((first, axes.xaxis), (second, axes.yaxis)):
        _name(axis, parameter)
    figure.text(0.012, 0.95, label(report.study.name), fontsize=13, fontweight="bold", color=INK)
    figure.text(0.012, 0.9, _caption(report, len(sure)), fontsize=9.5, color=PALE)
    return True


def _caption(report: StudyReport, sure: int) -> str:
    text = "mean value and number of trials by the two most important parameters"
    if fold_chance(report.study, report.study.best) is None:
        return text
    framed = f"{sure} framed cells are" if sure > 1 else "the framed cell is" if sure else "no cell is"
    return f"{text}; {framed} more than the luck of the best of {trials_tried(report.study):,} trials"


def _frame(corner: tuple[float, float], width: float, height: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, width, height, fill=False, edgecolor=INK, linewidth=2)


def _name(axis: Any, parameter: PlotParameter) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_label_text(label(parameter.name), color=INK)
    if parameter.choices is not None:
        axis.set_ticks(range(len(parameter.choices)), [label(name)[:12] for name in parameter.choices])
    elif parameter.is_log:
        axis.set_major_formatter(FuncFormatter(lambda place, _: f"{10**place:.1g}"))
