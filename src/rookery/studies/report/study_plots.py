"""The plots of a study as files: history, importances, slices, a map, parallel coordinates, values by seed or fold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import StudyError
from rookery.monitor.plots import ACCENT, EVAL, INK, PALE, figure_class, save_figure, style_frame
from rookery.studies.report.market_overfitting import fold_chance, trials_tried
from rookery.studies.report.parameter_plots import PlotParameter, draw_parallel, draw_slices, label, plot_parameters
from rookery.studies.report.report import StudyReport
from rookery.studies.report.report_text import METHOD_NAMES
from rookery.studies.storage.study_view import StudyView, TrialView

# The two most important parameters of a study as a map of the values in between, with the deflation that a market's
# trials deserve: the best cell of many is lucky.

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


TOP = 10  # trials whose parts are shown
BOX = (0.09, 0.12, 0.88, 0.73)  # of the axes in the figure


def draw_plots(report: StudyReport, folder: Path) -> list[Path]:
    """Draw what the trials give; returns the files. A plot that needs more than there is, is not drawn."""
    if not report.study.comparable:
        raise StudyError(f"no trial of {report.study.name} has finished with a finite value: there is nothing to plot")
    plots: dict[str, Callable[[Any, StudyReport], bool]] = {
        "history": draw_history,
        "importances": draw_importances,
        "slices": draw_slices,
        "map": draw_map,
        "parallel": draw_parallel,
        "parts": draw_parts,
        "pareto": draw_front,
    }
    made = []
    for name, draw in plots.items():
        figure = figure_class()(figsize=(9, 5), facecolor="white")
        if draw(figure, report):
            out = folder / f"{name}.png"
            save_figure(figure, out, dpi=150)
            made.append(out)
    return made


def draw_history(figure: Any, report: StudyReport) -> bool:
    """The value of each trial, the best so far, and values with held-out seeds."""
    study = report.study
    axes = figure.add_axes(BOX)
    known = study.comparable
    numbers, values = np.array([t.number for t in known]), np.array([t.values[0] for t in known])
    best = np.maximum.accumulate(values) if study.maximise else np.minimum.accumulate(values)
    axes.scatter(numbers, values, s=_dot(len(known)), color=ACCENT, alpha=0.55, linewidth=0, label="finished trial")
    ends = [*numbers, max(trial.number for trial in study.trials)]
    axes.plot(ends, [*best, best[-1]], color=INK, linewidth=1.5, drawstyle="steps-post", label="best so far")
    for state, colour in (("pruned", "#d9a441"), ("failed", "#c0392b")):
        rest = [trial.number for trial in study.trials if trial.state == state]
        if rest:
            below = axes.get_xaxis_transform()
            axes.plot(rest, [0.015] * len(rest), "|", color=colour, markersize=7, transform=below, label=state)
    _draw_verified(axes, study)
    _limit(axes, values)
    axes.set_xlabel("trial", color=INK)
    axes.set_ylabel("value", color=INK)
    _legend(axes)
    style_frame(axes)
    _title(figure, axes, study, "value of each trial")
    return True


def draw_importances(figure: Any, report: StudyReport) -> bool:
    """A bar for each parameter."""
    if not report.importances:
        return False
    shown = list(report.importances.items())[:15][::-1]
    figure.set_size_inches(9, 1.6 + 0.36 * len(shown))
    axes = figure.add_subplot()
    bars = axes.barh([label(name) for name, _ in shown], [share for _, share in shown], color=ACCENT, height=0.62)
    axes.bar_label(bars, [f"{100 * share:.0f} %" for _, share in shown], padding=4, color=INK, fontsize=9)
    style_frame(axes)
    axes.grid(False)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", colors=INK)
    figure.subplots_adjust(left=0.25, right=0.94, top=1 - 0.75 / figure.get_size_inches()[1], bottom=0.04)
    _title(figure, axes, report.study, f"importance of each parameter, by {METHOD_NAMES[report.method]}")
    return True


def draw_parts(figure: Any, report: StudyReport) -> bool:
    """The values of the best trials by seed or fold: how much of their order is noise."""
    trials = [trial for trial in report.top(TOP) if len(_part_values(trial)) > 0]
    if not any(len(_part_values(trial)) > 1 for trial in trials):
        return False
    axes = figure.add_axes(BOX)
    for place, trial in enumerate(trials):
        values = _part_values(trial)
        axes.plot([place] * len(values), values, "o", color=ACCENT, alpha=0.6, markersize=5, markeredgewidth=0)
        axes.plot([place - 0.28, place + 0.28], [trial.values[0]] * 2, color=INK, linewidth=2)
        verified = report.study.verified.get(trial.number)
        if verified is not None:
            held_out = [value for value in verified.values.values() if np.isfinite(value)]
            axes.plot([place + 0.16] * len(held_out), held_out, "o", markerfacecolor="none", color=EVAL, markersize=5)
    axes.plot([], [], "o", color=ACCENT, alpha=0.6, label="one seed or fold", markeredgewidth=0)
    axes.plot([], [], color=INK, linewidth=2, label="value of the trial")
    if report.study.verified:
        axes.plot([], [], "o", markerfacecolor="none", color=EVAL, label="held-out seed")
    axes.set_xticks(range(len(trials)), [str(trial.number) for trial in trials])
    axes.set_xlim(-0.6, len(trials) - 0.4)
    axes.set_xlabel("trial, the best first", color=INK)
    axes.set_ylabel("value", color=INK)
    _legend(axes)
    style_frame(axes)
    _title(figure, axes, report.study, "values by seed or fold of the best trials")
    return True


def draw_front(figure: Any, report: StudyReport) -> bool:
    """Two objectives of each trial, and the trials that none beats in both."""
    if len(report.study.directions) != 2 or not report.front:
        return False
    axes = figure.add_axes(BOX)
    known = np.array([trial.values for trial in report.study.comparable])
    front = np.array(sorted((trial.values for trial in report.front), key=lambda values: values[1]))
    corners = "steps-pre" if report.study.directions[1] else "steps-post"
    axes.scatter(known[:, 1], known[:, 0], s=_dot(len(known)), color=PALE, alpha=0.6, linewidth=0, label="trial")
    line = {"color": EVAL, "marker": "o", "markersize": 5, "linewidth": 1.2, "drawstyle": corners}
    axes.plot(front[:, 1], front[:, 0], label="Pareto front", **line)
    for trial in report.front[:12]:
        axes.annotate(
            str(trial.number), trial.values[1::-1], (4, -9), textcoords="offset points", fontsize=8, color=INK
        )
    seconds = "value+seconds" in str((report.study.config or {}).get("search", {}))
    axes.set_xlabel("seconds of training" if seconds else "second objective", color=INK)
    axes.set_ylabel("value", color=INK)
    _legend(axes)
    style_frame(axes)
    _title(figure, axes, report.study, "what no other trial beats in both objectives")
    return True


def _draw_verified(axes: Any, study: StudyView) -> None:
    for place, (number, trial) in enumerate(study.verified.items()):
        named = "with held-out seeds, 95 % interval" if place == 0 else None
        low, high = trial.interval or (trial.iqm, trial.iqm)
        error = [[max(0.0, trial.iqm - low)], [max(0.0, high - trial.iqm)]]
        axes.errorbar(
            number, trial.iqm, error, color=EVAL, marker="D", markersize=5, capsize=3, linewidth=1.2, linestyle="",
            label=named,
        )  # fmt: skip


def _part_values(trial: TrialView) -> list[float]:
    values = (part.get("value") for part in trial.parts.values())
    return [float(value) for value in values if isinstance(value, int | float) and np.isfinite(value)]


def _limit(axes: Any, values: np.ndarray) -> None:
    """Leave out values far from most, which would press all others into a line."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    reach = 3 * max(high - low, 1e-12)
    inside = values[np.abs(values - middle) <= reach]
    if len(inside) < len(values):
        room = 0.08 * max(np.ptp(inside), 1e-12)
        axes.set_ylim(inside.min() - room, inside.max() + room)


def _legend(axes: Any) -> None:
    """Above the axes, where it hides no trial."""
    above = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 5, "columnspacing": 1.2, "handlelength": 1.2}
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, **above)


def _dot(count: int) -> float:
    return 26 if count <= 200 else 12 if count <= 2000 else 4


def _title(figure: Any, axes: Any, study: StudyView, what: str) -> None:
    figure.suptitle(label(study.name), x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    axes.set_title(what, loc="left", fontsize=9.5, color=PALE, pad=8)
