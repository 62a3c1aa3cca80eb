"""Plots of runs from their metrics files: of one run returns, evaluations, losses and speed; of several one line per
run, and one line with a band for the seeds of one configuration. Matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import printable, say
from rookery.errors import MissingExtra
from rookery.files import beside, named, own_folder
from rookery.monitor.events import Event
from rookery.monitor.formatting import opponents_met, settings_text
from rookery.monitor.jsonl import METRICS, history
from rookery.monitor.statistics import AXES, Curve, band

ACCENT, EVAL = "#1b6ca8", "#d1603d"
INK, PALE = "#30363d", "#8b949e"
LOSSES = (ACCENT, EVAL, "#4c956c", "#9067a7")
MARGINS = {"left": 0.075, "right": 0.98, "top": 0.875, "bottom": 0.06, "hspace": 0.32, "wspace": 0.22}
SMALL_LEGEND: dict[str, Any] = {
    "frameon": False, "fontsize": 7.5, "labelcolor": INK, "handlelength": 0.9, "columnspacing": 0.9,
}  # fmt: skip
RAW_ALPHA = 0.4
SMOOTH_SHARE = 0.03  # of the points shown: the width of the smoothing
_Points = tuple[np.ndarray, np.ndarray]
COLOURS = (
    "#1b6ca8", "#d1603d", "#4c956c", "#9067a7", "#b8860b", "#2a9d8f", "#c2185b", "#6b705c", "#3d405b", "#8d6e63",
)  # fmt: skip
STYLES = ("-", "--", ":", "-.")  # once all colours are used
NAMES = {"eval/return": "return of evaluations", "episode/return": "return, mean of the last 100 episodes"}
LONGEST_LABEL = 60


def plot_run(folder: str | Path) -> Path | None:
    """Draw `plots/learning.png` of the run in `folder`; if that fails, print the reason in one line and return None."""
    try:
        return draw_learning(folder)
    except Exception as error:  # noqa: BLE001 - a plot must never end a run
        say(f"the plot was not drawn: {error or type(error).__name__}")
        return None


def drawn_if_possible(draw: Callable[[], Path], is_wanted: bool = False) -> Path | None:
    """The plot beside a table: unless somebody asked for it, the table is still useful without."""
    try:
        return draw()
    except (MissingExtra, OSError) as error:
        if is_wanted:
            raise
        say(f"the plot was not drawn: {printable(error)}")
        return None


def learning_plot(folder: str | Path) -> Path:
    """Where the plot of the run in `folder` is."""
    return Path(folder) / "plots" / "learning.png"


def draw_learning(folder: str | Path) -> Path:
    out = learning_plot(folder)
    own_folder(out.parent, parents=False)
    return draw(Path(folder) / METRICS, out)


def draw(metrics_path: str | Path, out_path: str | Path) -> Path:
    """Draw the run of a metrics file; the suffix of `out_path` is the image format."""
    events, out = history(metrics_path), Path(out_path)
    figure = figure_class()(figsize=(10, 6.4), facecolor="white")
    # Fixed margins: Matplotlib's own layout draws every label twice, a quarter of the time.
    grid = figure.add_gridspec(2, 3, height_ratios=(2.1, 1), **MARGINS)
    met = opponents_met(name for event in events for name in event.values)
    panels: Iterable[tuple[Any, Callable[[Any, list[Event]], None], str]] = (
        (grid[0, :], _draw_returns, "return"),
        (grid[1, 0], _draw_wins, "games won in evaluations")
        if met
        else (grid[1, 0], _draw_length, "episode length, mean of the last 100"),
        (grid[1, 1], _draw_losses, "losses, absolute values"),
        (grid[1, 2], _draw_speed, "steps per second"),
    )
    for place, draw_one, title in panels:
        axes = figure.add_subplot(place)
        draw_one(axes, events)
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)
        _style_axes(axes)
    _set_title(figure, events)
    save_figure(figure, out)
    return out


def _draw_returns(axes: Any, events: list[Event]) -> None:
    _line(axes, _curve(events, "progress", "episode/return"), ACCENT, "episodes, mean of the last 100", 2)
    _draw_evaluations(axes, events)
    _draw_phases(axes, events)
    axes.set_xlabel("steps", color=INK)
    _add_legend(axes, "no episode has ended yet")


def _draw_evaluations(axes: Any, events: list[Event]) -> None:
    steps, means = _curve(events, "evaluation", "eval/return")
    if not len(steps):
        return
    (ends, low), (_, high) = (_curve(events, "evaluation", f"eval/return_{end}") for end in ("low", "high"))
    spread, label = 0.0 * means, "evaluations"
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
    ring = {"marker": "o", "markersize": 10, "markeredgecolor": EVAL, "markerfacecolor": "none"}
    axes.plot(steps[best : best + 1], means[best : best + 1], linestyle="", label="best evaluation", **ring)


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
        axes.plot(steps, won, color=colour, linewidth=1.2, marker="o", markersize=3, label=f"against {who}")
    axes.set_ylim(0, 1.02)
    axes.legend(**SMALL_LEGEND, loc="lower right")


def _draw_length(axes: Any, events: list[Event]) -> None:
    _line(axes, _curve(events, "progress", "episode/length"), ACCENT)


def _draw_speed(axes: Any, events: list[Event]) -> None:
    _smoothed(axes, _curve(events, "progress", "steps_per_second"), ACCENT)
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])
    axes.yaxis.set_major_formatter(with_prefixes())
    if handles := _smoothing_legend(axes, ACCENT):
        axes.legend(handles=handles, **SMALL_LEGEND, loc="lower right", ncols=2)


def _draw_losses(axes: Any, events: list[Event]) -> None:
    """Absolute values of the first four losses, because they differ in sign and by orders of magnitude."""
    names = list(dict.fromkeys(name for event in events for name in event.values if name.startswith("loss/")))
    curves = {name.removeprefix("loss/"): _curve(events, "progress", name) for name in names}
    shown = [name for name, (_, values) in curves.items() if np.any(values != 0)][: len(LOSSES)]
    for name, colour in zip(shown, LOSSES, strict=False):
        steps, values = curves[name]
        _smoothed(axes, (steps, np.abs(values)), colour, label=name.replace("_", " "))
    if shown:
        axes.set_yscale("log")
        own, _ = axes.get_legend_handles_labels()
        low, high = axes.get_ylim()
        axes.set_ylim(low / (high / low) ** 0.35, high)  # room for the legend
        axes.legend(handles=[*own, *_smoothing_legend(axes, PALE)], **SMALL_LEGEND, loc="lower left", ncols=3)


def _line(axes: Any, curve: _Points, colour: str, label: str | None = None, linewidth: float = 1.5) -> None:
    """The curve as it is; a single point is a dot."""
    steps, values = curve
    marker = "o" if len(steps) == 1 else ""
    if len(steps):
        axes.plot(steps, values, color=colour, linewidth=linewidth, label=label, marker=marker, markersize=4)


def _smoothed(axes: Any, curve: _Points, colour: str, label: str | None = None) -> None:
    """The smoothed curve and, where it differs, the raw one, pale."""
    steps, values = curve
    smooth = _smooth(values)
    if smooth is not values:
        axes.plot(steps, values, color=colour, alpha=RAW_ALPHA, linewidth=0.75)
    _line(axes, (steps, smooth), colour, label)


def _smoothing_legend(axes: Any, colour: str) -> list[Any]:
    """What the two lines of a smoothed curve are, if there is one."""
    from matplotlib.lines import Line2D

    if all(line.get_alpha() != RAW_ALPHA for line in axes.lines):
        return []
    raw = Line2D([], [], color=colour, alpha=RAW_ALPHA, linewidth=0.75, label="raw")
    return [raw, Line2D([], [], color=colour, linewidth=1.5, label="smoothed")]


def _curve(events: list[Event], kind: str, name: str) -> _Points:
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
    figure.text(0.012, 0.945, how, ha="left", va="top", fontsize=9.5, color=PALE)


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


def figure_class() -> Any:
    """The Figure class, which avoids the global state of pyplot; saving chooses the canvas."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot needs matplotlib, which is not installed: pip install 'rookery[plot]'") from None
    return Figure


def save_figure(figure: Any, out: Path, dpi: int = 200) -> None:
    """Write to a temporary file and rename it, so that an incomplete file is never seen."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with beside(out) as unfinished, named(out):
        figure.savefig(unfinished, dpi=dpi, format=out.suffix[1:])


def style_frame(axes: Any) -> None:
    """A frame that does not draw attention from the curves."""
    axes.grid(True, axis="y", color="#e6e8eb", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=PALE, labelsize=8.5, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color("#c9ced4")


def with_prefixes() -> Any:
    """Numbers as 10 k and 2 M."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep=" ")


@dataclass(frozen=True)
class CurveGroup:
    """Curves that belong together, such as the seeds of one configuration."""

    label: str
    curves: Sequence[Curve]


def draw_groups(
    groups: Sequence[CurveGroup], out: str | Path, metric: str, axis: str = "steps", title: str = ""
) -> Path:
    """Draw the curves of all groups over one axis; the suffix of `out` is the image format."""
    path = Path(out)
    figure = figure_class()(figsize=(9, 5.4), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    banded = False
    for number, group in enumerate(groups):
        curves = [curve for curve in group.curves if len(curve.x)]
        style = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS) % len(STYLES)]}
        banded |= _draw_group(axes, group.label[:LONGEST_LABEL], curves, style)
    _style(axes, metric, axis, banded)
    figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    what = NAMES.get(metric, metric) + (", interquartile mean over seeds" if banded else "")
    axes.set_title(what, loc="left", fontsize=9.5, color=INK)
    save_figure(figure, path)
    return path


def _draw_group(axes: Any, label: str, curves: Sequence[Curve], style: dict[str, Any]) -> bool:
    """Draw one group; returns whether it has a band."""
    if len(curves) < 2:
        for curve in curves:
            dots = {"marker": "o", "markersize": 3.5} if len(curve.x) <= 30 else {}
            axes.plot(curve.x, curve.y, linewidth=1.6, label=label, **dots, **style)
        return False
    for curve in curves:
        axes.plot(curve.x, curve.y, linewidth=0.7, alpha=0.35, **style)
    shared = band(curves)
    if not len(shared.x):  # no point lies in the range of all curves
        axes.plot([], [], label=label, **style)
        return False
    axes.fill_between(shared.x, shared.low, shared.high, color=style["color"], alpha=0.18, linewidth=0)
    if len(shared.x) == 1:
        spread = [shared.mean - shared.low, shared.high - shared.mean]
        axes.errorbar(shared.x, shared.mean, spread, marker="o", capsize=4, label=label, **style)
        return True
    axes.plot(shared.x, shared.mean, linewidth=2.2, label=label, **style)
    return True


def _style(axes: Any, metric: str, axis: str, banded: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(AXES[axis], color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_major_formatter(with_prefixes())
    axes.set_xlim(left=0)
    style_frame(axes)
    _add_legend(axes, f"no run has {metric} yet", _band_legend() if banded else [])


def _band_legend() -> list[Any]:
    """What is drawn beside the mean over seeds."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    seeds = Line2D([], [], color=PALE, alpha=0.6, linewidth=0.7, label="each seed, raw")
    return [Patch(color=PALE, alpha=0.3, linewidth=0, label="95 % bootstrap interval"), seeds]


def _add_legend(axes: Any, without: str, more: Sequence[Any] = ()) -> None:
    """A legend, or a sentence if nothing is drawn."""
    if axes.lines:
        own, _ = axes.get_legend_handles_labels()
        axes.legend(handles=[*own, *more], frameon=False, fontsize=9, loc="best", labelcolor=INK)
    else:
        axes.text(0.5, 0.5, without, ha="center", va="center", color=PALE, transform=axes.transAxes)
