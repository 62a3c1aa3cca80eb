"""A report as one HTML file that needs no other file, no script and no network; and as one PNG."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from rookery.monitor.plots import INK, PALE, figure_class, save_figure, style_frame
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.report_lines import (
    NAMES,
    amount,
    asset_texts,
    fact_rows,
    figure_rows,
    fold_texts,
    period_texts,
    period_unit,
    trading_rows,
)
from rookery.training.backtest.svg_chart import ChartLine, averaged, chart, heat_map, legend, thinned

MOST_PERIODS = 36  # rows of the table by period
MOST_WEIGHTS = 8  # symbols whose positions are drawn
MOST_POSITIONS = 240  # points of each: more than that are averaged


def page(report: Mapping[str, Any], account: JoinedAccount) -> str:
    """The file's text."""
    title = " · ".join(filter(None, (report.get("run"), report.get("world"), report["split"])))
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict">{escape(report["verdict"])}</p>',
        *(f'<p class="note">{escape(text)}</p>' for text in report["notes"]),
        _facts(fact_rows(report)),
        *_charts(report, account),
        "<h2>Figures</h2>",
        _table(("", "agent", "95 % interval", "hold", "equal weight"), figure_rows(report)),
        "<h2>Trading</h2>",
        _facts(trading_rows(report)),
        *_tables(report),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    lines = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{lines}\n</body></html>\n'
    )


def _charts(report: Mapping[str, Any], account: JoinedAccount) -> Iterable[str]:
    times = account.times
    equity = [ChartLine(NAMES[name], values, name) for name, values in account.equity.items()]
    order = ("equal_weight", "hold", "agent")  # the agent is drawn last, above the others
    yield f"<h2>Equity</h2>{legend(equity)}"
    yield chart(times, sorted(equity, key=lambda curve: order.index(curve.style)), amount, 280)
    falls = [
        ChartLine(f"drawdown of {NAMES[x]}", -fallen(account.equity[x]), x, x == "agent") for x in ("agent", "hold")
    ]
    yield f"<h2>Drawdown</h2>{legend(falls)}"
    yield chart(times, falls, lambda value: f"{100 * value:.4g} %", 150)
    ends, held = weight_curves(account)
    mean = f", mean of about {round(len(account) / len(ends))} bars" if len(ends) < len(account) else ""
    yield f"<h2>Positions</h2><p>As a part of the equity{mean}; below zero: short. The sum is of absolute values.</p>"
    yield legend(held)
    yield chart(ends, held, lambda value: f"{100 * value:.4g} %", 180)
    paid = [
        ChartLine(kind, np.cumsum(values), f"w{k}")
        for k, (kind, values) in enumerate(account.costs.items())
        if values.any()
    ]
    if paid:
        yield f"<h2>Costs</h2><p>Sum of what was paid so far.</p>{legend(paid)}"
        yield chart(times[1:], paid, amount, 150)
    yield from _heat_map(report)


def fallen(equity: np.ndarray) -> np.ndarray:
    """How far the equity is below its highest value so far, as a part of it."""
    peaks = np.maximum.accumulate(equity)
    return 1 - equity / np.where(peaks > 0, peaks, 1.0)


def weight_curves(account: JoinedAccount) -> tuple[np.ndarray, list[ChartLine]]:
    """Times, and the positions that were largest; where there are several symbols, also the sum of all."""
    sizes = {symbol: float(np.abs(weights).mean()) for symbol, weights in account.weights.items()}
    shown = sorted(sizes, key=lambda symbol: -sizes[symbol])[:MOST_WEIGHTS]
    series = {symbol: account.weights[symbol] for symbol in shown}
    if len(sizes) > 1:
        series["sum"] = account.exposure
    means = {name: averaged(account.times[1:], values, MOST_POSITIONS) for name, values in series.items()}
    curves = [
        ChartLine(name, values, f"w{k}" if name in sizes else "sum", area=len(sizes) == 1)
        for k, (name, (_, values)) in enumerate(means.items())
    ]
    return next(iter(means.values()))[0], curves


def _heat_map(report: Mapping[str, Any]) -> Iterable[str]:
    found = heat_map(report)
    yield f"<h2>Return by {found.unit}, in %</h2>"
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *found.columns))
    rows = []
    for name, cells in zip(found.rows, found.cells, strict=True):
        rows.append(f"<tr><th>{escape(name)}</th>{''.join(_cell(value, found.scale) for value in cells)}</tr>")
    yield f'<div class="wide"><table class="heat"><tr>{head}</tr>{"".join(rows)}</table></div>'


def _cell(value: float, scale: float) -> str:
    if not np.isfinite(value):
        return "<td></td>"
    colour = "up" if value >= 0 else "down"
    strength = min(abs(value) / scale, 1.0) * 0.75
    return f'<td style="background: rgba(var(--{colour}), {strength:.2f})">{100 * value:+.1f}</td>'


def _tables(report: Mapping[str, Any]) -> Iterable[str]:
    if report["by_fold"]:
        yield "<h2>By fold</h2>"
        yield _table(("fold", "from", "to", "agent", "hold", "equal weight", "trades"), fold_texts(report))
    unit = period_unit(report, MOST_PERIODS)
    yield f"<h2>By {unit}</h2>"
    header = (unit, "agent", "hold", "equal weight", "drawdown", "trades", "costs")
    yield _table(header, period_texts(report, unit))
    yield "<h2>By asset</h2><p>Hold is of this symbol alone, after costs.</p>"
    header = ("symbol", "profit", "before costs", "trades", "in market", "hit rate", "hold")
    yield _table(header, asset_texts(report))


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name.strip())}</dt><dd>{escape(text)}</dd>' for name, text in rows)}</dl>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


STYLE = """
:root { color-scheme: light dark; --ink: #24292f; --pale: #6e7781; --line: #d8dee4; --paper: #ffffff;
  --agent: #1b6ca8; --hold: #d1603d; --equal: #8b949e; --up: 45, 145, 95; --down: 205, 75, 60;
  --w0: #1b6ca8; --w1: #d1603d; --w2: #4c956c; --w3: #9067a7;
  --w4: #b8862b; --w5: #2a9d9d; --w6: #b35c8f; --w7: #6e7781; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --pale: #9198a1; --line: #30363d; --paper: #0d1117;
    --agent: #58a6ff; --hold: #f0883e; --equal: #7d8590; --up: 63, 185, 110; --down: 240, 95, 85;
    --w0: #58a6ff; --w1: #f0883e; --w2: #56b97c; --w3: #b392e0;
    --w4: #d9a93f; --w5: #44c0c0; --w6: #de7fb4; --w7: #9198a1; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 980px;
  margin: 2rem auto; padding: 0 1rem; font-variant-numeric: tabular-nums; }
h1 { font-size: 1.4rem; margin: 0 0 .6rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
p { margin: .2rem 0; } .verdict { font-weight: 600; font-size: 1.1rem; } .note { color: var(--hold); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .8rem 0; }
dt { color: var(--pale); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; } th { color: var(--pale); font-weight: 500; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } tr + tr td { border-top: 1px solid var(--line); }
.heat td { text-align: center; padding: .2rem .45rem; border: 1px solid var(--paper);
  font-size: .85rem; min-width: 2.4rem; }
.heat th { font-size: .85rem; }
svg { width: 100%; height: auto; display: block; } .grid { stroke: var(--line); stroke-width: 1; }
.tick { fill: var(--pale); font-size: 11px; }
polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
polyline.agent { stroke: var(--agent); stroke-width: 2; } polyline.hold { stroke: var(--hold); }
polyline.equal_weight { stroke: var(--equal); } polyline.sum { stroke: var(--pale); }
.area { fill-opacity: .3; stroke-width: 1; } .area.agent { fill: var(--agent); stroke: var(--agent); }
polyline.w0 { stroke: var(--w0); } polyline.w1 { stroke: var(--w1); } polyline.w2 { stroke: var(--w2); }
polyline.w3 { stroke: var(--w3); } polyline.w4 { stroke: var(--w4); } polyline.w5 { stroke: var(--w5); }
polyline.w6 { stroke: var(--w6); } polyline.w7 { stroke: var(--w7); } .area.w0 { fill: var(--w0); stroke: var(--w0); }
.legend { color: var(--pale); font-size: .9rem; } .legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: 1.1em; height: .2em; margin-right: .4em; vertical-align: middle; }
i.agent { background: var(--agent); } i.hold { background: var(--hold); } i.equal_weight { background: var(--equal); }
i.sum { background: var(--pale); }
i.w0 { background: var(--w0); } i.w1 { background: var(--w1); } i.w2 { background: var(--w2); }
i.w3 { background: var(--w3); } i.w4 { background: var(--w4); } i.w5 { background: var(--w5); }
i.w6 { background: var(--w6); } i.w7 { background: var(--w7); }
@media print { body { margin: 0; } }
"""

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
