"""A report as one HTML file that needs no other file, no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.backtest.report_lines import (
    NAMES,
    amount,
    fact_rows,
    figure_rows,
    over_time_rows,
    ratio,
    tables,
    trade_rows,
    trading_rows,
)
from rookery.training.backtest.svg_chart import ChartLine, averaged, chart, heat_map, legend
from rookery.training.backtest.trades import Trade

MOST_PERIODS = 36  # rows of the table by period
MOST_TRADES = 300
MOST_WEIGHTS = 8  # symbols whose positions are drawn
MOST_POSITIONS = 240  # points of each: more than that are averaged


def page(report: Mapping[str, Any], account: JoinedAccount, trades: Sequence[Trade]) -> str:
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
        _facts([*trading_rows(report), *trade_rows(report), *over_time_rows(report)]),
        *_tables(report, trades),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    lines = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{lines}\n</body></html>\n'
    )


def _charts(report: Mapping[str, Any], account: JoinedAccount) -> Iterable[str]:
    times = account.times
    folds = [(row["from"], f"fold {row['fold']}") for row in report["by_fold"]]
    equity = [ChartLine(NAMES[name], values, name) for name, values in account.equity.items()]
    order = ("equal_weight", "hold", "agent")  # the agent is drawn last, above the others
    yield f"<h2>Equity</h2>{legend(equity)}"
    yield chart(times, sorted(equity, key=lambda curve: order.index(curve.style)), amount, 280, marks=folds)
    falls = [
        ChartLine(f"drawdown of {NAMES[x]}", -fallen(account.equity[x]), x, x == "agent") for x in ("agent", "hold")
    ]
    borders = [(time, "") for time, _ in folds]
    worst = [(fall["from"], fall["to"], str(place)) for place, fall in enumerate(report["worst_drawdowns"], 1)]
    yield f"<h2>Drawdown</h2>{legend(falls)}"
    yield chart(times, falls, lambda value: f"{100 * value:.4g} %", 150, marks=borders, stretches=worst)
    yield from _rolling(report["rolling_sharpe"], borders)
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


def _rolling(found: Mapping[str, Any] | None, borders: Sequence[tuple[int, str]]) -> Iterable[str]:
    if found is not None:
        curves = [ChartLine(NAMES[name], np.array(found[name]), name) for name in ("hold", "agent")]
        yield f"<h2>Sharpe ratio a year, of the last {found['days']} days</h2>{legend(curves[::-1])}"
        yield chart(np.array(found["times"]), curves, ratio, 150, marks=borders)


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
    by_year = found.unit == "month"
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *found.columns, *["year"] * by_year))
    rows = []
    for name, cells in zip(found.rows, found.cells, strict=True):
        year = [float(np.prod(1 + cells[np.isfinite(cells)]) - 1)] if by_year else []
        shown = "".join(_cell(value, found.scale) for value in (*cells, *year))
        rows.append(f"<tr><th>{escape(name)}</th>{shown}</tr>")
    yield f'<div class="wide"><table class="heat"><tr>{head}</tr>{"".join(rows)}</table></div>'


def _cell(value: float, scale: float) -> str:
    if not np.isfinite(value):
        return "<td></td>"
    colour = "up" if value >= 0 else "down"
    strength = min(abs(value) / scale, 1.0) * 0.75
    return f'<td style="background: rgba(var(--{colour}), {strength:.2f})">{100 * value:+.1f}</td>'


def _tables(report: Mapping[str, Any], trades: Sequence[Trade]) -> Iterable[str]:
    for title, header, rows in tables(report, trades, MOST_PERIODS, MOST_TRADES):
        if title == "by month, in %":  # drawn above, in colour
            continue
        yield f"<h2>{escape(title[0].upper() + title[1:])}</h2>{NOTES.get(title, '')}"
        if title == "trades" and len(rows) < len(trades):
            yield f"<p>Those with the largest profits and losses, of {len(trades):,}. trades.csv has all of them.</p>"
        yield _table(header, rows)


NOTES = {
    "by asset": "<p>Hold is of this symbol alone, after costs.</p>",
    "trades": "<p>From the first fill of a position until it was closed or turned round, in UTC. An order fills at the "
    "open after the time. The return is a part of the account before the trade, after costs.</p>",
}


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
.wide { overflow: auto; max-height: 32rem; } table { border-collapse: collapse; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; } th { color: var(--pale); font-weight: 500; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } tr + tr td { border-top: 1px solid var(--line); }
.heat td { text-align: center; padding: .2rem .45rem; border: 1px solid var(--paper);
  font-size: .85rem; min-width: 2.4rem; }
.heat th { font-size: .85rem; }
svg { width: 100%; height: auto; display: block; } .grid { stroke: var(--line); stroke-width: 1; }
.mark { stroke: var(--pale); stroke-dasharray: 3 3; } .fall { fill: var(--hold); fill-opacity: .13; }
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
