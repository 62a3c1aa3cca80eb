"""The plot of several runs: one line per run, and one line with a band for the seeds of one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.monitor.curves import AXES, Curve, band
from rookery.monitor.matplotlib_figure import INK, PALE, figure_class, save_figure, style_frame, with_prefixes

COLOURS = (
    "#1b6ca8", "#d1603d", "#4c956c", "#9067a7", "#b8860b", "#2a9d8f", "#c2185b", "#6b705c", "#3d405b", "#8d6e63",
)  # fmt: skip
STYLES = ("-", "--", ":", "-.")  # once all colours are used
NAMES = {"eval/return": "return of evaluations", "episode/return": "return, mean of the last 100 episodes"}
LONGEST_LABEL = 60


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
    _style(axes, metric, axis)
    figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    if banded:
        text = "thick line: interquartile mean over seeds; band: its 95 % bootstrap interval; thin lines: single seeds"
        axes.set_title(text, loc="left", fontsize=9, color=PALE)
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


def _style(axes: Any, metric: str, axis: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(AXES[axis], color=INK)
    axes.set_ylabel(NAMES.get(metric, metric), color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_major_formatter(with_prefixes())
    axes.set_xlim(left=0)
    style_frame(axes)
    if axes.lines:
        axes.legend(frameon=False, fontsize=9, loc="best", labelcolor=INK)
    else:
        text = f"no run has {metric} yet"
        axes.text(0.5, 0.5, text, ha="center", va="center", color=PALE, transform=axes.transAxes)
