"""A report as one PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rookery.monitor.plots import INK, PALE, figure_class, save_figure, style_frame
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.report_lines import NAMES
from rookery.training.backtest.report_pages import fallen, weight_curves
from rookery.training.backtest.svg_chart import heat_map, thinned

COLOURS = {"agent": "#1b6ca8", "hold": "#d1603d", "equal_weight": "#8b949e"}
WEIGHTS = ("#1b6ca8", "#d1603d", "#4c956c", "#9067a7", "#b8862b", "#2a9d9d", "#b35c8f", "#6e7781")
DPI = 130
MOST_ROWS = 14  # of the heat map, from which on its cells have no numbers


def draw_report(report: Mapping[str, Any], account: JoinedAccount, out: Path) -> Path:
    """Draw it; the suffix of `out` is the image format."""
    heat = 0.25 + 0.17 * min(len(heat_map(report).rows), MOST_ROWS)
    height = 8.5 + 1.7 * heat
    figure = figure_class()(figsize=(11, height), facecolor="white")
    margins = {"left": 0.075, "right": 0.975, "top": 1 - 1.45 / height, "bottom": 0.04, "hspace": 0.42, "wspace": 0.16}
    grid = figure.add_gridspec(4, 2, width_ratios=(1.6, 1), height_ratios=(2.2, 1, 1.3, heat), **margins)
    equity = figure.add_subplot(grid[0, :])
    times = account.times.astype("datetime64[s]")
    for name in ("equal_weight", "hold", "agent"):
        _line(equity, times, account.equity[name], COLOURS[name], NAMES[name], 2 if name == "agent" else 1.2)
    drawdown = figure.add_subplot(grid[1, :], sharex=equity)
    drawdown.fill_between(times, -100 * fallen(account.equity["agent"]), color=COLOURS["agent"], alpha=0.3, linewidth=0)
    _line(drawdown, times, -100 * fallen(account.equity["hold"]), COLOURS["hold"], "hold", 1)
    _draw_positions(figure.add_subplot(grid[2, 0]), account)
    _draw_costs(figure.add_subplot(grid[2, 1]), times[1:], account)
    titles = ("equity", "drawdown (%)", "positions (%)", "costs so far")
    for axes, title in zip(figure.axes, titles, strict=True):
        _finish(axes, title)
    _draw_heat_map(figure.add_subplot(grid[3, :]), report)
    _write_titles(figure, report)
    save_figure(figure, out, DPI)
    return out


def _line(axes: Any, times: np.ndarray, values: np.ndarray, colour: str, label: str, width: float) -> None:
    kept = thinned(len(times), values, 2000)
    marker = "o" if len(times) == 1 else ""
    axes.plot(times[kept], values[kept], color=colour, label=label, linewidth=width, marker=marker, markersize=4)


def _draw_positions(axes: Any, account: JoinedAccount) -> None:
    ends, curves = weight_curves(account)
    for curve, colour in zip(curves, (*WEIGHTS, INK), strict=False):
        shade = INK if curve.style == "sum" else colour
        _line(axes, ends.astype("datetime64[s]"), 100 * curve.values, shade, curve.name, 1)


def _draw_costs(axes: Any, times: np.ndarray, account: JoinedAccount) -> None:
    for (kind, amounts), colour in zip(account.costs.items(), WEIGHTS, strict=False):
        if amounts.any():
            _line(axes, times, np.cumsum(amounts), colour, kind, 1.5)
    if not axes.lines:
        axes.text(0.5, 0.5, "nothing was paid", ha="center", va="center", color=PALE, transform=axes.transAxes)


def _finish(axes: Any, title: str) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import StrMethodFormatter

    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    if axes.lines:
        locator = AutoDateLocator(minticks=3, maxticks=8)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.margins(x=0.01)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    if len(axes.lines) > 1:
        above = {"loc": "lower right", "bbox_to_anchor": (1.01, 0.96), "ncols": len(axes.lines)}
        size = 7.5 if len(axes.lines) < 6 else 5.8
        axes.legend(frameon=False, fontsize=size, labelcolor=INK, handlelength=0.9, columnspacing=0.9, **above)
    style_frame(axes)


def _draw_heat_map(axes: Any, report: Mapping[str, Any]) -> None:
    found = heat_map(report)
    axes.imshow(found.cells, cmap="RdYlGn", vmin=-found.scale, vmax=found.scale, aspect="auto", alpha=0.6)
    axes.set_xticks(range(len(found.columns)), found.columns)
    few = len(found.rows) <= MOST_ROWS
    step = 1 if few else -(-len(found.rows) // MOST_ROWS)
    axes.set_yticks(range(0, len(found.rows), step), list(found.rows)[::step])
    if few:
        for (row, column), value in np.ndenumerate(found.cells):
            if np.isfinite(value):
                axes.text(column, row, f"{100 * value:+.1f}", ha="center", va="center", fontsize=7, color=INK)
    axes.set_title(f"return by {found.unit} (%)", loc="left", fontsize=9.5, color=INK)
    axes.tick_params(colors=PALE, labelsize=7.5, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _write_titles(figure: Any, report: Mapping[str, Any]) -> None:
    title = " · ".join(filter(None, (report.get("run"), report.get("world"), report["split"])))
    inch = 1 / figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.2 * inch, title, ha="left", va="top", fontsize=13, fontweight="bold", color=INK)
    costs = f"Costs: {report['costs']['name']} ({'; '.join(report['costs']['rates'])})"
    texts = (" ".join([report["verdict"], *report["notes"]]), costs)
    lines = [line for text in texts for line in textwrap.wrap(text, 165, max_lines=2)]
    figure.text(0.012, 1 - 0.5 * inch, "\n".join(lines), ha="left", va="top", fontsize=8, color=INK, linespacing=1.5)
