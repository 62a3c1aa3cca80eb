"""A report as one HTML file that needs no other file, no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from rookery.training.backtest.heat_map import heat_map
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.page_style import STYLE
from rookery.training.backtest.svg_chart import ChartLine, averaged, chart, legend
from rookery.training.backtest.terminal import (
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
