"""The plot of a run, from its metrics file: returns, evaluations, losses and speed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import say
from rookery.files import own_folder
from rookery.monitor.events import Event
from rookery.monitor.formatting import opponents_met, settings_text
from rookery.monitor.jsonl import METRICS, history
from rookery.monitor.matplotlib_figure import INK, PALE, figure_class, save_figure, style_frame, with_prefixes

ACCENT, EVAL = "#1b6ca8", "#d1603d"
LOSSES = (ACCENT, EVAL, "#4c956c", "#9067a7")
MARGINS = {"left": 0.075, "right": 0.98, "top": 0.9, "bottom": 0.06, "hspace": 0.32, "wspace": 0.22}
SMOOTH_SHARE = 0.03  # of the points shown: the width of the smoothing
Curve = tuple[np.ndarray, np.ndarray]


def plot_run(folder: str | Path) -> Path | None:
    """Draw `plots/learning.png` of the run in `folder`; if that fails, print the reason in one line and return None."""
    try:
        return draw(Path(folder) / METRICS, own_folder(Path(folder) / "plots", parents=False) / "learning.png")
    except Exception as error:  # noqa: BLE001 - a plot must never end a run
        say(f"the plot was not drawn: {error or type(error).__name__}")
        return None


def draw(metrics_path: str | Path, out_path: str | Path) -> Path:
    """Draw the run of a metrics file; the suffix of `out_path` is the image format."""
    events, out = history(metrics_path), Path(out_path)
    figure = figure_class()(figsize=(10, 6.4), facecolor="white")
    # Fixed margins: Matplotlib's own layout draws every label twice, a quarter of the time.
    grid = figure.add_gridspec(2, 3, height_ratios=(2.1, 1), **MARGINS)
    _draw_returns(figure.add_subplot(grid[0, :]), events)
    met = opponents_met(name for event in events for name in event.values)
    below: Iterable[tuple[Callable[[Any, list[Event]], None], str]] = (
        (_draw_wins, "") if met else (_draw_length, "episode length"),
        (_draw_losses, ""),
        (_draw_speed, "steps per second"),
    )
    for column, (draw_one, title) in enumerate(below):
        axes = figure.add_subplot(grid[1, column])
        draw_one(axes, events)
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    for axes in figure.axes:
        _style_axes(axes)
    _set_title(figure, events)
    save_figure(figure, out)
    return out


def _draw_returns(axes: Any, events: list[Event]) -> None:
    _line(axes, _curve(events, "progress", "episode/return"), ACCENT, "episode return, mean of the last 100", 2)
    _draw_evaluations(axes, events)
    _draw_phases(axes, events)
    axes.set_ylabel("return", color=INK)
    axes.set_xlabel("steps", color=INK)
    if axes.lines:
        axes.legend(frameon=False, fontsize=9, loc="best", labelcolor=INK)
    else:
        axes.text(0.5, 0.5, "no episode has ended yet", ha="center", va="center", color=PALE, transform=axes.transAxes)


def _draw_evaluations(axes: Any, events: list[Event]) -> None:
    steps, means = _curve(events, "evaluation", "eval/return")
    if not len(steps):
        return
    (ends, low), (_, high) = (_curve(events, "evaluation", f"eval/return_{end}") for end in ("low", "high"))
    spread, label = 0.0 * means, "evaluation"
    if len(ends) and len(low) == len(high):  # runs of earlier versions have none
        spread = np.where(np.isin(steps, ends), np.interp(steps, ends, (high - low) / 2), 0.0)
        label += ", mean with 95 % interval"
    axes.fill_between(steps, means - spread, means + spread, color=EVAL, alpha=0.15, linewidth=0)
    if len(steps) < 3:  # too few for a band to be seen
        axes.errorbar(steps, means, spread, color=EVAL, alpha=0.5, capsize=3, linestyle="")
    axes.plot(steps, means, color=EVAL, linewidth=1, marker="o", markersize=4.5, label=label)
    flagged = [event.step for event in events if event.kind == "evaluation" and event.values.get("eval/best")]
    best = int(np.searchsorted(steps, flagged[-1])) if flagged else int(np.argmax(means))
    best = min(best, len(steps) - 1)
    axes.plot(
        steps[best : best + 1],
        means[best : best + 1],
        marker="o",
        markersize=10,
        markeredgecolor=EVAL,
        markerfacecolor="none",
    )


def _draw_phases(axes: Any, events: list[Event]) -> None:
    """Mark the start of each phase of a curriculum."""
    starts = [event for event in events if event.kind == "note" and "phase" in event.values]
    for event in starts:
        name = str(event.values.get("text", "")).partition(" (")[0]
        axes.axvline(event.step, color=PALE, linewidth=0.8, linestyle=":")
        above = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "top"}
        axes.annotate(name, (event.step, 1.0), (3, -3), fontsize=8, color=PALE, **above)


def _draw_wins(axes: Any, events: list[Event]) -> None:
    """Win rate against each opponent in evaluations, with 95 % intervals."""
    met = opponents_met(name for event in events for name in event.values)
    for who, colour in zip(met, LOSSES, strict=False):
        steps, won = _curve(events, "evaluation", f"eval/{who}/won")
        low, high = (_curve(events, "evaluation", f"eval/{who}/won_{side}")[1] for side in ("low", "high"))
        if len(low) == len(high) == len(steps):
            axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(steps, won, color=colour, linewidth=1.2, marker="o", markersize=3, label=f"won against {who}")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False, fontsize=7.5, labelcolor=INK, handlelength=0.9, loc="lower right")


def _draw_length(axes: Any, events: list[Event]) -> None:
    _line(axes, _curve(events, "progress", "episode/length"), ACCENT)


def _draw_speed(axes: Any, events: list[Event]) -> None:
    _line(axes, _curve(events, "progress", "steps_per_second"), ACCENT)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.yaxis.set_major_formatter(with_prefixes())


def _draw_losses(axes: Any, events: list[Event]) -> None:
    """Absolute values of the first four losses, because they differ in sign and by orders of magnitude."""
    names = list(dict.fromkeys(name for event in events for name in event.values if name.startswith("loss/")))
    curves = {name.removeprefix("loss/"): _curve(events, "progress", name) for name in names}
    shown = [name for name, (_, values) in curves.items() if np.any(values != 0)][: len(LOSSES)]
    for name, colour in zip(shown, LOSSES, strict=False):
        steps, values = curves[name]
        _line(axes, (steps, np.abs(values)), colour, label=name.replace("_", " "))
    if shown:
        axes.set_yscale("log")
        above = {"loc": "lower left", "bbox_to_anchor": (-0.04, 0.97), "ncols": len(shown)}
        axes.legend(frameon=False, fontsize=7.5, labelcolor=INK, handlelength=0.9, columnspacing=0.9, **above)


def _line(axes: Any, curve: Curve, colour: str, label: str | None = None, linewidth: float = 1.5) -> None:
    """The raw curve, pale, and the smoothed curve; a single point is a dot."""
    steps, values = curve
    if not len(steps):
        return
    marker = "o" if len(steps) == 1 else ""
    axes.plot(steps, values, color=colour, alpha=0.3, linewidth=linewidth / 2)
    axes.plot(steps, _smooth(values), color=colour, linewidth=linewidth, label=label, marker=marker, markersize=4)


def _curve(events: list[Event], kind: str, name: str) -> Curve:
    """Steps and values of one metric, where it has a value."""
    pairs = [(event.step, event.values[name]) for event in events if event.kind == kind and name in event.values]
    known = [(step, value) for step, value in pairs if isinstance(value, int | float)]
    array = np.array(known, dtype=float).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def _smooth(values: np.ndarray) -> np.ndarray:
    """Gaussian smoothing, normalised at the ends."""
    width = SMOOTH_SHARE * len(values)
    if width < 0.5:
        return values
    reach = int(3 * width) + 1
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    weights = np.convolve(np.ones_like(values), kernel)[reach:-reach]
    return np.convolve(values, kernel)[reach:-reach] / weights


def _set_title(figure: Any, events: list[Event]) -> None:
    facts: dict[str, Any] = {}
    for event in events:
        if event.kind == "start":
            facts.update(event.values)
    names = [str(facts[name]) for name in ("run", "world") if facts.get(name)]
    title = " · ".join(dict.fromkeys(names)) or "a run"
    how = ", ".join(settings_text(facts))
    figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.axes[0].set_title(how, loc="left", fontsize=9.5, color=PALE)


def _style_axes(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(with_prefixes())
    axes.minorticks_off()
    if not axes.lines:  # nothing is drawn
        axes.set_xticks([])
        axes.set_yticks([])
    else:
        axes.set_xlim(0, 1.02 * max(1.0, *(np.max(line.get_xdata()) for line in axes.lines)))
    style_frame(axes)
